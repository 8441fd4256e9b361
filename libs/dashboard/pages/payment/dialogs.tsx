import { Dialog } from '../../parts/Dialog.js'
import { fetched } from '../../parts/fetched.js'

function NotLoaded({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title="The dialog was not loaded" onClose={onClose}>
      <p>Nothing was changed. Reload the page and try again.</p>
    </Dialog>
  )
}

export const HoldDialog = fetched(async () => (await import('./actions.js')).HoldDialog, NotLoaded)
export const NoteDialog = fetched(async () => (await import('./actions.js')).NoteDialog, NotLoaded)
export const CancelDialog = fetched(async () => (await import('./actions.js')).CancelDialog, NotLoaded)
export const ReturnDialog = fetched(async () => (await import('./actions.js')).ReturnDialog, NotLoaded)
export const RedriveDialog = fetched(async () => (await import('./actions.js')).RedriveDialog, NotLoaded)
export const ReplaceDialog = fetched(async () => (await import('./ReplaceDialog.js')).ReplaceDialog, NotLoaded)
export const ResolveDialog = fetched(async () => (await import('./actions.js')).ResolveDialog, NotLoaded)
export const BulkDialog = fetched(async () => (await import('./BulkDialog.js')).BulkDialog, NotLoaded)
export const EnqueueForm = fetched(
  async () => (await import('../overview/EnqueueForm.js')).EnqueueForm,
  () => <p>The form was not loaded. Reload the page.</p>,
)
