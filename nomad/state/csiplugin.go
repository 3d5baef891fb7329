package state

import (
	"fmt"
	"iter"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

var csiPlugins = &table.Table[csi.Plugin]{
	Name:   TableCSIPlugins,
	Events: true,
	ID:     func(p *csi.Plugin) table.Key { return table.KeyOf(p.ID) },
}

// CSIPlugin returns the record of a plugin, or nil if there is none.
func (s *Snapshot) CSIPlugin(ws memdb.WatchSet, id string) *csi.Plugin {
	return csiPlugins.Get(s.tx, ws, table.KeyOf(id))
}

// CSIPlugins returns every plugin, by ID.
func (s *Snapshot) CSIPlugins(ws memdb.WatchSet) iter.Seq[*csi.Plugin] {
	return csiPlugins.All(s.tx, ws)
}

// DeleteCSIPlugin removes the record of a plugin without instances and jobs. A plugin that does not exist is not an error.
func (s *Store) DeleteCSIPlugin(index uint64, req *message.CSIPluginDeleteRequest) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		p := csiPlugins.Get(t, nil, table.KeyOf(req.ID))
		if p == nil {
			return nil
		}
		if !p.Empty() {
			return fmt.Errorf("%w: %s", csi.ErrPluginInUse, req.ID)
		}
		csiPlugins.Delete(t.Txn, p)
		return nil
	})
}
