import { InputError, readAgentFile, readIndex, writeJson } from './files.js';
import { ResolutionError, resolve } from './resolver.js';

function printSummary(lockfile) {
  console.log('\nResolution Summary:');
  for (const server of lockfile.servers) {
    console.log(`  ${server.category}: ${server.serverId}@${server.version}`);
    console.log(`    Scopes: ${server.scopes.join(', ')}`);
  }
  console.log('\n✓ Resolution complete');
}

function run(options) {
  const agent = readAgentFile(options.agents);
  const servers = readIndex(options.index);

  console.log(`Resolving agent '${agent.name}@${agent.version}'...`);
  console.log(`  Requirements: ${agent.requires.mcp.length} MCP category/categories`);
  console.log(`  Available servers: ${servers.length}`);
  console.log('');

  const { lockfile, explanation } = resolve({ agent, servers, resolvedAt: new Date().toISOString() });

  writeJson(options.output, lockfile);
  console.log(`✓ Wrote ${options.output}`);
  if (options.explain) {
    writeJson(options.explainOutput, explanation);
    console.log(`✓ Wrote ${options.explainOutput}`);
  }
  printSummary(lockfile);
}

function report(error) {
  console.error(error.message);
  if (error instanceof ResolutionError) {
    console.error('Rejected candidates:');
    for (const { serverId, version, reason } of error.rejected) {
      console.error(`  ${serverId}@${version}: ${reason.message}`);
    }
  }
}

export function resolveCommand(options) {
  try {
    run(options);
  } catch (error) {
    if (!(error instanceof InputError || error instanceof ResolutionError)) throw error;
    report(error);
    process.exitCode = 1;
  }
}
