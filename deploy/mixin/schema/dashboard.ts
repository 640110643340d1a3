// make check-dashboard writes the rendered dashboard after the last line and has TypeScript say
// whether it is one, by Grafana's own types.
import type { Dashboard } from '@grafana/schema';

// A type as it is in JSON, where the members of an enumeration are plain values.
type JSONOf<T> = T extends string ? `${T}`
  : T extends number ? (`${T}` extends `${infer N extends number}` ? N : T)
  : T extends (infer E)[] ? JSONOf<E>[]
  : T extends object ? { [K in keyof T]: JSONOf<T[K]> }
  : T;

export const dashboard: JSONOf<Dashboard> =
