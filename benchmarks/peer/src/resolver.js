import { createHash } from 'node:crypto';
import { SENSITIVITIES } from './schema.js';

/** Thrown when a requirement has no candidate left; carries the rejections of the first such category. */
export class ResolutionError extends Error {
  constructor(categories, rejected) {
    super(`Resolution failed: no candidates for categories: ${categories.join(', ')}`);
    this.rejected = rejected;
  }
}

// Code-unit order, so that no locale decides a tie.
const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const byIdThenVersion = (a, b) => compare(a.id, b.id) || compare(a.version, b.version);
const byPreference = (a, b) => Number(b.trust.signed) - Number(a.trust.signed) || byIdThenVersion(a, b);

/** The first rule that the server breaks, or null when it is a candidate. */
function findReason(server, { category, permissions }, { residency, sensitivity }) {
  if (!server.categories.includes(category)) {
    return { code: 'MISSING_CATEGORY', message: `Server does not support category '${category}'` };
  }
  const missing = permissions.filter((permission) => !server.scopes.includes(permission));
  if (missing.length > 0) {
    return { code: 'MISSING_SCOPE', message: `Server missing required scopes: ${missing.join(', ')}` };
  }
  const supported = server.data.residency;
  if (residency && residency !== 'any' && !supported.includes(residency) && !supported.includes('any')) {
    return {
      code: 'RESIDENCY_MISMATCH',
      message: `Agent requires '${residency}' but server supports: ${supported.join(', ')}`,
    };
  }
  const max = server.data.maxSensitivity;
  if (sensitivity && SENSITIVITIES.indexOf(sensitivity) > SENSITIVITIES.indexOf(max)) {
    return {
      code: 'SENSITIVITY_EXCEEDED',
      message: `Agent sensitivity '${sensitivity}' exceeds server max '${max}'`,
    };
  }
  return null;
}

function selectionReason(selected, candidates) {
  if (candidates.length === 1) return 'Only matching candidate';
  return `Selected by tie-break: ${selected.trust.signed ? 'signed, ' : ''}id='${selected.id}'`;
}

function hashOf({ id, version, endpoint }, scopes) {
  return createHash('sha256').update(`${id}@${version}|${endpoint}|${scopes.join(',')}`).digest('hex');
}

/** Judge every server for one requirement; the servers, and so the rejections, are sorted by id, then version. */
function resolveRequirement(requirement, servers, constraints) {
  const reasons = servers.map((server) => findReason(server, requirement, constraints));
  const candidates = servers.filter((_, position) => reasons[position] === null).sort(byPreference);
  const selected = candidates[0] ?? null;

  const rejected = [];
  servers.forEach((server, position) => {
    if (server === selected) return;
    const reason = reasons[position] ?? {
      code: 'LOST_TIE_BREAK',
      message: `Not selected: lost tie-break to '${selected.id}@${selected.version}'`,
    };
    rejected.push({ serverId: server.id, version: server.version, reason });
  });
  return { requirement, scopes: [...requirement.permissions].sort(), candidates, selected, rejected };
}

function lockEntry({ requirement, selected, scopes }) {
  return {
    category: requirement.category,
    serverId: selected.id,
    version: selected.version,
    endpoint: selected.endpoint,
    scopes,
    hash: hashOf(selected, scopes),
  };
}

function explainRequirement({ requirement, scopes, candidates, selected, rejected }, constraints) {
  return {
    category: requirement.category,
    requiredPermissions: scopes,
    selected: {
      serverId: selected.id,
      version: selected.version,
      endpoint: selected.endpoint,
      scopes,
      selectionReason: selectionReason(selected, candidates),
    },
    rejected,
    constraintsApplied: {
      residency: constraints.residency ?? null,
      sensitivity: constraints.sensitivity ?? null,
      requireSigned: null,
    },
  };
}

/** Resolve an agent against the servers of an index; pure, the time is an argument. */
export function resolve({ agent, servers, resolvedAt }) {
  const constraints = agent.constraints?.data ?? {};
  const sortedServers = [...servers].sort(byIdThenVersion);
  const requirements = [...agent.requires.mcp].sort((a, b) => compare(a.category, b.category));
  const outcomes = requirements.map((requirement) => resolveRequirement(requirement, sortedServers, constraints));

  const failed = outcomes.filter(({ selected }) => selected === null);
  if (failed.length > 0) {
    throw new ResolutionError(
      failed.map(({ requirement }) => requirement.category),
      failed[0].rejected,
    );
  }

  const header = { agentName: agent.name, agentVersion: agent.version, resolvedAt };
  return {
    lockfile: { ...header, servers: outcomes.map(lockEntry) },
    explanation: {
      ...header,
      success: true,
      requirements: outcomes.map((outcome) => explainRequirement(outcome, constraints)),
    },
  };
}
