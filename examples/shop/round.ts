// Simulated work of a leader: stops after three rounds.
export const stop = new AbortController()
let rounds = 0

export async function oneRound(signal: AbortSignal, fencingToken: bigint) {
  signal.throwIfAborted()
  rounds += 1
  console.log(`round ${rounds} under token ${fencingToken}`)
  if (rounds === 3) stop.abort()
}
