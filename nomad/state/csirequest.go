package state

import (
	"iter"
	"slices"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// csiVolumeKeys returns the keys of the CSI volumes that an allocation requests, until its client has ended it.
func csiVolumeKeys(a *nomad.Allocation) (out []table.Key) {
	if a.ClientTerminalStatus() {
		return nil
	}
	var seen []string
	for _, r := range a.CSIRequests(a.Job) {
		if source := r.SourceFor(a.Name); !slices.Contains(seen, source) {
			seen = append(seen, source)
			out = append(out, table.KeyOf(a.Namespace, source))
		}
	}
	return out
}

// CSIVolumeUsers returns the allocations that request the CSI volume and that their client has not ended, whether or not
// they have claimed it.
func (s *Snapshot) CSIVolumeUsers(ws memdb.WatchSet, namespace, id string) iter.Seq[*nomad.Allocation] {
	return allocs.By(s.tx, ws, "csi_volume", table.KeyOf(namespace, id))
}
