import { generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto'

/** A new certificate and its key, as PEM. Tests create them, because a certificate in the repository would expire. */
export interface Certificate {
  readonly name: string
  readonly cert: string
  readonly key: string
  readonly privateKey: KeyObject
}

interface CertificateOptions {
  /** DNS name of the host. */
  readonly name: string
  /** Signer of the certificate. @default itself */
  readonly issuer?: Certificate
  /** @default in a day */
  readonly notAfter?: Date
}

const DAY_MS = 86_400_000

/** Creates an X.509 certificate in DER, because Node.js can sign and check certificates but not create them. */
export function makeCertificate({ name, issuer, notAfter }: CertificateOptions): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const now = Date.now()
  const content = sequence(
    der(0xa0, integer(Buffer.from([2]))), // version 3
    integer(Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ECDSA_WITH_SHA256,
    distinguishedName(issuer?.name ?? name),
    sequence(time(new Date(now - 365 * DAY_MS)), time(notAfter ?? new Date(now + DAY_MS))),
    distinguishedName(name),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(subjectAltName(name), ...(issuer === undefined ? [isAuthority()] : []))),
  )
  const signature = sign('sha256', content, issuer?.privateKey ?? privateKey)
  const certificate = sequence(content, ECDSA_WITH_SHA256, der(0x03, Buffer.from([0]), signature))
  return {
    name,
    cert: `-----BEGIN CERTIFICATE-----\n${certificate.toString('base64')}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    privateKey,
  }
}

function der(tag: number, ...contents: Buffer[]): Buffer {
  const content = Buffer.concat(contents)
  const { length } = content
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}

const sequence = (...items: Buffer[]) => der(0x30, ...items)
const integer = (bytes: Buffer) => der(0x02, bytes)
const identifier = (hex: string) => der(0x06, Buffer.from(hex, 'hex'))

const ECDSA_WITH_SHA256 = sequence(identifier('2a8648ce3d040302'))

const distinguishedName = (name: string) =>
  sequence(der(0x31, sequence(identifier('550403'), der(0x0c, Buffer.from(name)))))

const time = (date: Date) => der(0x18, Buffer.from(`${date.toISOString().replaceAll(/[-:T]/g, '').slice(0, 14)}Z`))

const subjectAltName = (name: string) =>
  sequence(identifier('551d11'), der(0x04, sequence(der(0x82, Buffer.from(name)))))

const isAuthority = () => sequence(identifier('551d13'), der(0x04, sequence(der(0x01, Buffer.from([0xff])))))
