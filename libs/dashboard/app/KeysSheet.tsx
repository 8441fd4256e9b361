import { Sheet } from '../parts/Sheet.js'
import { keysAreShown } from './keys.js'
import { placesInSight } from './places.js'

export function KeysSheet() {
  if (!keysAreShown.value) return null
  return (
    <Sheet title="Keys" onClose={() => (keysAreShown.value = false)}>
      <dl class="keys">
        <Key keys={['/']} does="Search payments" />
        {placesInSight().map(({ key, title }) => (
          <Key key={key} keys={['g', key]} does={title} />
        ))}
        <Key keys={['j', 'k']} does="Next and previous row of a list" />
        <Key keys={['t']} does="Light or dark" />
        <Key keys={['?']} does="This page" />
        <Key keys={['Esc']} does="Close, or leave a field" />
      </dl>
    </Sheet>
  )
}

function Key({ keys, does }: { readonly keys: readonly string[]; readonly does: string }) {
  return (
    <>
      <dt>
        {keys.map((key) => (
          <kbd key={key}>{key}</kbd>
        ))}
      </dt>
      <dd>{does}</dd>
    </>
  )
}
