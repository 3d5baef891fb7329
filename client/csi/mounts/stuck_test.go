package mounts_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	clientcsi "github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/client/csi/mounts"
	"github.com/open-nomad/open-nomad/internal/testnet"
)

// stuckFS mounts a file system whose server never answers, until answer is called.
func stuckFS(t *testing.T, at string) (answer func()) {
	t.Helper()
	server, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		testnet.Missing(t, "FUSE: "+err.Error())
	}
	answer = sync.OnceFunc(func() { server.Close() }) // all calls fail then
	t.Cleanup(answer)
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server.Fd())
	if err := errors.Join(os.MkdirAll(at, 0o700), unix.Mount("stuck", at, "fuse.stuck", 0, options)); err != nil {
		t.Fatal(err)
	}
	return answer
}

// TestStuckFileSystem checks that a file system whose server does not answer delays only the volume that the plugin has put
// there: other volumes are mounted and released.
func TestStuckFileSystem(t *testing.T) {
	for name, above := range map[string]string{"published": "", "above the published volumes": "per-alloc", "the plugin's directory": "."} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			other := &plugin{w: w, id: "p2", root: filepath.Join(w.dir, "node", "p2"), volumes: t.TempDir(),
				staged: map[string]string{}, published: map[string]string{}}
			if err := errors.Join(os.MkdirAll(other.root, 0o700), mounts.Share(w.dir)); err != nil {
				t.Fatal(err)
			}
			a := w.start(func(c *mounts.Config) { c.Plugins = several{w.plugin, other} })
			var answer func()
			stuck := make(chan struct{})
			w.plugin.stages = above != ""
			if above != "" {
				answer = stuckFS(t, filepath.Join(w.plugin.root, above))
				close(stuck)
			} else {
				w.plugin.publish = func(at string, _ *clientcsi.NodeRequest) error {
					answer = stuckFS(t, at)
					close(stuck)
					return nil
				}
			}
			done := make(chan error)
			go func() {
				_, err := a.mount(use("a1", "stuck"))
				done <- err
			}()
			<-stuck
			for i := range 5 { // the first ones may be faster than the stuck one
				alloc := fmt.Sprint("b", i)
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				r := request(use(alloc, "fine"))
				r.PluginID = "p2"
				finished := make(chan error, 1)
				go func() {
					err := a.Begin(ctx, r.Use)
					if err == nil {
						_, err = a.Mount(ctx, r)
					}
					finished <- errors.Join(err, a.End(alloc), a.Settled(ctx, alloc))
				}()
				select {
				case err := <-finished:
					if err != nil {
						t.Error(err)
					}
				case <-time.After(patience):
					t.Error("a volume of another plugin waits for the file system that is stuck")
				}
				cancel()
			}
			answer()
			if err := <-done; err == nil {
				t.Error("the stuck file system was mounted for a task")
			}
			a.release(t, "a1")
			if above == "" {
				_ = os.RemoveAll(other.root)
				w.nothingLeft(a)
			}
		})
	}
}

// several are plugins.
type several []*plugin

func (s several) Await(_ context.Context, id string) (mounts.Plugin, mounts.Instance, error) {
	return s.Current(id)
}

func (s several) Current(id string) (mounts.Plugin, mounts.Instance, error) {
	for _, p := range s {
		if p.id == id {
			return p.Current(id)
		}
	}
	return s[0].Current(id)
}

// TestStuckFileSystem_End checks that an allocation whose volume is stuck ends, and that the volume is released later, when the
// server of its file system answers.
func TestStuckFileSystem_End(t *testing.T) {
	w := newWorld(t)
	a := w.start()
	var answer func()
	stuck := make(chan struct{})
	w.plugin.publish = func(at string, _ *clientcsi.NodeRequest) error {
		answer = stuckFS(t, at)
		close(stuck)
		return nil
	}
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	r := request(use("a1", "stuck"))
	if err := a.Begin(ctx, r.Use); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := a.Mount(ctx, r)
		done <- err
	}()
	<-stuck
	stopped := errors.New("stopped")
	time.AfterFunc(100*time.Millisecond, func() { stop(stopped) })
	select {
	case err := <-done:
		if !errors.Is(err, stopped) {
			t.Errorf("Mount() = %v, want %v", err, stopped)
		}
	case <-time.After(patience):
		t.Error("an allocation that must stop waits for the file system")
	}
	if err := a.End("a1"); err != nil {
		t.Error(err)
	}
	answer()
	a.release(t, "a1")
	w.nothingLeft(a)
}
