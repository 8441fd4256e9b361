export async function main(_argv: readonly string[]): Promise<void> {
  await Promise.resolve()
}
