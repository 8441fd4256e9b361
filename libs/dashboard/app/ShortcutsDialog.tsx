import { Dialog } from '../parts/Dialog.js'
import { keysAreShown } from './keys.js'
import { visibleNavItems } from './navItems.js'

export function ShortcutsDialog() {
  if (!keysAreShown.value) return null
  return (
    <Dialog title="Shortcuts" onClose={() => (keysAreShown.value = false)}>
      <dl class="keys">
        <Key keys={['/']} does="Search payments" />
        {visibleNavItems().map(({ key, title }) => (
          <Key key={key} keys={['g', key]} does={title} />
        ))}
        <Key keys={['j', 'k']} does="Next and previous row of a list" />
        <Key keys={['x']} does="Select the row" />
        <Key keys={['t']} does="Light or dark" />
        <Key keys={['?']} does="Shortcuts" />
        <Key keys={['Esc']} does="Close, or leave a field" />
      </dl>
    </Dialog>
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
