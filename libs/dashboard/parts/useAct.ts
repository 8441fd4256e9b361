import { useState } from 'preact/hooks'
import { say } from '../app/announce.js'
import { problemOf, type ShownProblem } from '../data/client.js'

export interface Act {
  readonly isRunning: boolean
  readonly problem: ShownProblem | null
  /** Does it once at a time, and says the sentence it resolves with. */
  readonly run: (act: () => Promise<string>) => void
}

/** A button that does something at once. */
export function useAct(): Act {
  const [isRunning, setIsRunning] = useState(false)
  const [problem, setProblem] = useState<ShownProblem | null>(null)
  const run = async (act: () => Promise<string>) => {
    setIsRunning(true)
    setProblem(null)
    try {
      say(await act())
    } catch (error) {
      setProblem(problemOf(error))
    } finally {
      setIsRunning(false)
    }
  }
  return { isRunning, problem, run: (act) => void run(act) }
}
