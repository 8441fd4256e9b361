/** Creates a gate. `opened` resolves when the test calls `open`. */
export function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  const waiting: (() => void)[] = []
  const opened = new Promise<void>((resolve) => waiting.push(resolve))
  return { opened, open: () => waiting.forEach((resolve) => resolve()) }
}
