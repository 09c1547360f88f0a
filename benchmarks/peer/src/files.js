import { readFileSync, writeFileSync } from 'node:fs';
import { parse } from 'yaml';
import { agentSchema, indexSchema } from './schema.js';

const FRONT_MATTER = /^---\r?\n([\s\S]*?)\r?\n---(?:\r?\n|$)/;

/** An input file that cannot be read or does not follow its schema. */
export class InputError extends Error {}

function check(schema, value, file) {
  const result = schema.safeParse(value);
  if (!result.success) {
    const lines = result.error.issues.map((issue) => `  - ${issue.path.join('.')}: ${issue.message}`);
    throw new InputError(`✗ ${file} validation failed:\n${lines.join('\n')}`);
  }
  return result.data;
}

function read(path) {
  try {
    return readFileSync(path, 'utf-8');
  } catch (error) {
    throw new InputError(`Cannot read ${path}: ${error.message}`);
  }
}

export function readAgentFile(path) {
  const match = FRONT_MATTER.exec(read(path));
  try {
    return check(agentSchema, (match && parse(match[1])) ?? {}, 'agents.md');
  } catch (error) {
    if (error instanceof InputError) throw error;
    throw new InputError(`Invalid YAML in ${path}: ${error.message}`);
  }
}

export function readIndex(path) {
  const text = read(path);
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new InputError(`Invalid JSON in ${path}: ${error.message}`);
  }
  return check(indexSchema, value, 'mcp.index.json');
}

export function writeJson(path, value) {
  writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`, 'utf-8');
}
