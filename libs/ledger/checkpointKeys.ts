import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { CheckpointError } from './checkpoints.js'
import { createFile } from './durableFile.js'

/** Makes a key pair in two files that must not exist yet: a key that signed checkpoints is not to be lost to another. */
export async function createCheckpointKeys(privateFile: string, publicFile: string): Promise<void> {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  await createFile(privateFile, privateKey.export({ type: 'pkcs8', format: 'pem' }), 0o600)
  await createFile(publicFile, publicKey.export({ type: 'spki', format: 'pem' }), 0o644)
}

/** Refuses a key that others can read: who else signs checkpoints can rewrite what they vouch for. */
export async function readPrivateKey(file: string): Promise<KeyObject> {
  const text = await readKeyFile(file)
  const { mode } = await stat(file)
  if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
    throw unusable(file, 'others can read it', `chmod 600 ${file}`)
  }
  return ed25519(file, () => createPrivateKey(text))
}

export async function readPublicKey(file: string): Promise<KeyObject> {
  const text = await readKeyFile(file)
  // A private key would do as well, and would be one more copy of it in the wrong hands.
  if (text.includes('PRIVATE KEY'))
    throw unusable(file, 'it is a private key', 'Give the public one to whoever verifies.')
  return ed25519(file, () => createPublicKey(text))
}

async function readKeyFile(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch {
    throw unusable(file, 'it cannot be read', 'Make one with symphony ledger keygen, or name the one that you have.')
  }
}

function ed25519(file: string, parse: () => KeyObject): KeyObject {
  try {
    const key = parse()
    if (key.asymmetricKeyType === 'ed25519') return key
  } catch {
    // Told below: what the library says of a key may repeat parts of it.
  }
  throw unusable(file, 'it is not an Ed25519 key in PEM', 'Make one with symphony ledger keygen.')
}

function unusable(file: string, why: string, remedy: string): CheckpointError {
  return new CheckpointError('KEY_UNUSABLE', `the key ${file}: ${why}`, remedy)
}
