import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Dialog } from '../../parts/Dialog.js'
import type * as dialogs from './actions.js'

type DialogComponent<Props> = (props: Props) => JSX.Element

/** Returns a dialog whose code is loaded when it is opened. */
function fetched<Props extends { readonly onClose: () => void }>(
  pick: (all: typeof dialogs) => DialogComponent<Props>,
) {
  return function Fetched(props: Props) {
    const [dialog, setDialog] = useState<{ readonly Found?: DialogComponent<Props> }>()
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
      <Dialog title="The dialog was not loaded" onClose={props.onClose}>
        <p>Nothing was changed. Reload the page and try again.</p>
      </Dialog>
    )
  }
}

export const CancelDialog = fetched(({ CancelDialog: found }) => found)
export const HoldDialog = fetched(({ HoldDialog: found }) => found)
export const RedriveDialog = fetched(({ RedriveDialog: found }) => found)
export const ResolveDialog = fetched(({ ResolveDialog: found }) => found)
export const BulkRedriveDialog = fetched(({ BulkRedriveDialog: found }) => found)
export const BulkApproveDialog = fetched(({ BulkApproveDialog: found }) => found)
