package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// ownGroup returns a group that does not exist, and whether it does.
func ownGroup(t *testing.T) (*proc.GroupSpec, func() bool) {
	t.Helper()
	h, err := cgroup.Detect()
	if err == nil {
		err = h.Usable()
	}
	if err != nil {
		t.Skipf("needs control groups: %v", err)
	}
	group := &proc.GroupSpec{Group: proc.Group{Parent: "nomad-test.slice",
		Name: fmt.Sprintf("%s-%d", strings.ReplaceAll(t.Name(), "/", "_"), os.Getpid())}}
	c, err := h.Open(group.Parent, group.Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Remove(); err != nil {
			t.Error(err)
		}
	})
	dir := strings.TrimSuffix(c.Dir(), "/")
	if dir == "" {
		dir = h.V1["memory"] + c.Path()
	}
	return group, func() bool {
		_, err := os.Stat(dir)
		return err == nil
	}
}

// The last sidecar removes the group.
func TestGroups_LastSidecarRemoves(t *testing.T) {
	group, exists := ownGroup(t)
	var g Groups
	var leaves []func() error
	for range 2 {
		_, leave, err := g.join(t.Context(), group)
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	for i, want := range []bool{true, false} {
		if err := leaves[i](); err != nil || exists() != want {
			t.Errorf("after %d sidecars: %v; the group exists: %t, want %t", i+1, err, exists(), want)
		}
	}
	if len(g.uses) > 0 {
		t.Errorf("%d groups have users", len(g.uses))
	}
}

// No sidecar joins or removes the group of a task that is starting. Afterwards the group is the
// supervisor's, unless the start has failed.
func TestGroups_Start(t *testing.T) {
	for name, failure := range map[string]error{"started": nil, "failed": errors.New("refused"), "unknown": supervise.ErrLost} {
		t.Run(name, func(t *testing.T) {
			group, exists := ownGroup(t)
			var g Groups
			_, leave, err := g.join(t.Context(), group)
			if err != nil {
				t.Fatal(err)
			}
			err = g.start(t.Context(), group, func() error {
				if err := leave(); err != nil || !exists() {
					t.Errorf("a sidecar ended: %v, the group exists: %t", err, exists())
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if _, _, err := g.join(ctx, group); !errors.Is(err, context.Canceled) {
					t.Errorf("a sidecar joined during the start: %v", err)
				}
				return failure
			})
			if !errors.Is(err, failure) {
				t.Errorf("start() = %v, want %v", err, failure)
			}
			if want := name != "failed"; exists() != want {
				t.Errorf("the group exists: %t, want %t", exists(), want)
			}
			if len(g.uses) > 0 {
				t.Errorf("%d groups have users", len(g.uses))
			}
		})
	}
}

// A sidecar that ends after the start leaves the group to the supervisor, even without processes.
func TestGroups_SidecarAfterStart(t *testing.T) {
	group, exists := ownGroup(t)
	var g Groups
	_, leave, err := g.join(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.start(t.Context(), group, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := leave(); err != nil || !exists() {
		t.Errorf("leave() = %v, the group exists: %t, want true", err, exists())
	}
}
