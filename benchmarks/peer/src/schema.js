import { z } from 'zod';

export const SENSITIVITIES = ['public', 'internal', 'confidential', 'pii.low', 'pii.moderate', 'pii.high'];
export const RESIDENCIES = ['any', 'us-only', 'eu-only'];

const sensitivity = z.enum(SENSITIVITIES);
const residency = z.enum(RESIDENCIES);
const text = z.string().min(1);

export const agentSchema = z.object({
  name: z.string().min(1, 'Agent name is required'),
  version: z.string().min(1, 'Agent version is required'),
  requires: z.object({
    mcp: z.array(z.object({ category: text, permissions: z.array(text).min(1) })).min(1),
  }),
  constraints: z
    .object({
      data: z.object({ sensitivity: sensitivity.optional(), residency: residency.optional() }).optional(),
      actions: z.object({ forbid: z.array(z.string()).optional() }).optional(),
    })
    .optional(),
});

export const serverSchema = z.object({
  id: text,
  version: text,
  endpoint: text,
  categories: z.array(text),
  scopes: z.array(z.string()),
  data: z.object({ residency: z.array(residency), maxSensitivity: sensitivity }),
  trust: z.object({ signed: z.boolean(), publisher: z.string() }),
  policy: z.object({ rateLimitPerMin: z.number().optional() }).optional(),
});

export const indexSchema = z.array(serverSchema);
