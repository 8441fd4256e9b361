import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Sheet } from '../../parts/Sheet.js'
import type * as sheets from './actions.js'

type Dialog<Props> = (props: Props) => JSX.Element

/** Returns a dialog whose code is fetched when it is opened. The pages need none of it before. */
function fetched<Props extends { readonly onClose: () => void }>(pick: (all: typeof sheets) => Dialog<Props>) {
  return function Fetched(props: Props) {
    const [dialog, setDialog] = useState<{ readonly Found?: Dialog<Props> }>()
    useEffect(() => {
      const fetch = async () => {
        try {
          const Found = pick(await import('./actions.js'))
          setDialog({ Found })
        } catch {
          setDialog({})
        }
      }
      void fetch()
    }, [])
    if (dialog === undefined) return null
    const { Found } = dialog
    if (Found !== undefined) return <Found {...props} />
    return (
      <Sheet title="The dialog was not loaded" onClose={props.onClose}>
        <p>Nothing was changed. Reload the page and try again.</p>
      </Sheet>
    )
  }
}

export const HoldSheet = fetched(({ HoldSheet: found }) => found)
export const RedriveSheet = fetched(({ RedriveSheet: found }) => found)
export const ResolveSheet = fetched(({ ResolveSheet: found }) => found)
export const RedriveManySheet = fetched(({ RedriveManySheet: found }) => found)
export const ApproveManySheet = fetched(({ ApproveManySheet: found }) => found)
