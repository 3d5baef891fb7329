package allochook

import (
	"context"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/hook"
)

// directoryHook creates the allocation's directory and removes it on destroy.
type directoryHook struct {
	root, id string
}

func newDirectoryHook(c Config) hook.Hook {
	return &directoryHook{root: c.AllocDir, id: c.Alloc.ID}
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

// Destroy uses the path below the client's directory, which no task can change. The descriptors
// of the run may be closed.
func (h *directoryHook) Destroy(context.Context) error { return allocdir.Destroy(h.root, h.id) }
