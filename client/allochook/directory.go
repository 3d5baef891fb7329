package allochook

import (
	"context"

	"github.com/open-nomad/open-nomad/client/allocdir"
)

// directoryHook builds the allocation's directory and removes it in the end.
type directoryHook struct {
	root, id string
}

func (*directoryHook) Name() string { return "directory" }

func (h *directoryHook) Prerun(_ context.Context, _ *PrerunRequest, resp *PrerunResponse) error {
	dir, err := allocdir.Build(h.root, h.id)
	if err != nil {
		return err
	}
	resp.Dir = dir
	return nil
}

// Destroy goes by the path of the client's own directory, which no task can touch:
// the descriptors of the run may be closed long since.
func (h *directoryHook) Destroy(context.Context) error { return allocdir.Destroy(h.root, h.id) }
