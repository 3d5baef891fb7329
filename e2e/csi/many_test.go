package csi_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// manyVolumes is the number of volumes of TestMany, and manyUsed how many of them are used at once.
const (
	manyVolumes = 500
	manyUsed    = 60
	manyCallers = 8
)

// TestMany has hundreds of volumes. A job uses some of them at once, the same job on the other node then the same ones.
func TestMany(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{nodes: []string{"a", "b"}, flags: `, "-max-volumes", "40"`})
	each := func(what string, do func(id string) error) {
		t.Helper()
		var wg sync.WaitGroup
		for first := range manyCallers {
			wg.Go(func() {
				for i := first; i < manyVolumes; i += manyCallers {
					if err := do(fmt.Sprintf("many[%d]", i)); err != nil {
						t.Errorf("%s volume %d: %v", what, i, err)
					}
				}
			})
		}
		wg.Wait()
	}
	each("create", func(id string) error {
		_, _, err := r.Server.Client.CSIVolumes().Create(volume(id), nil)
		return err
	})
	if n := len(r.volumes()); n != manyVolumes {
		t.Errorf("%d volumes are listed, want %d", n, manyVolumes)
	}
	u := user{id: "many", source: "many", kind: "service", count: manyUsed, volume: "per_alloc = true", script: forever}
	harness.Run(t, r.Server, u.text())
	allocs := harness.Await(t, r.Server, "many", "running", manyUsed)
	for node, n := range harness.CountByNode(allocs) {
		if n > 40 {
			t.Errorf("node %s has %d volumes, its limit is 40", node, n)
		}
		if got := len(r.mounts(node)); got < 2*n {
			t.Errorf("node %s has %d mounts of %d volumes, want at least a staged and a published one each", node, got, n)
		}
	}
	harness.Stop(t, r.Server, "many")
	for i := range manyUsed {
		r.free(fmt.Sprintf("many[%d]", i))
	}
	for _, node := range []string{"a", "b"} {
		r.noMounts(node)
	}
	each("delete", func(id string) error { return r.Server.Client.CSIVolumes().Delete(id, nil) })
}
