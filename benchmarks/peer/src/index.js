#!/usr/bin/env node
import { Command } from 'commander';
import { resolveCommand } from './command.js';

const program = new Command();

program.name('agent').description('Resolve agent requirements against MCP servers').version('0.1.0');

program
  .command('resolve')
  .description('Resolve agent requirements and generate a lockfile')
  .option('-a, --agents <path>', 'Path to agents.md file', './agents.md')
  .option('-i, --index <path>', 'Path to mcp.index.json file', './mcp.index.json')
  .option('-o, --output <path>', 'Path to output agents.lock', './agents.lock')
  .option('-e, --explain', 'Also write agents.resolution.json')
  .option('--explain-output <path>', 'Path to resolution output', './agents.resolution.json')
  .action(resolveCommand);

program.parse();
