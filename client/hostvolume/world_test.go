package hostvolume_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/hostvolume"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// store keeps volumes like the client's state.
type store struct {
	mu   sync.Mutex
	rows map[string]message.ClientHostVolumeState
}

func (s *store) PutHostVolume(v *message.ClientHostVolumeState) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[v.ID] = *v
	return nil
}

func (s *store) DeleteHostVolume(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rows, id)
	return nil
}

func (s *store) HostVolumes() (out []*message.ClientHostVolumeState, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.rows {
		out = append(out, &v)
	}
	return out, nil
}

// world is a Manager with its directories.
type world struct {
	*hostvolume.Manager
	t       *testing.T
	dir     string // of the volumes
	plugins string
	private string // of the agent
	store   *store
	logged  *strings.Builder
	changes int
	limit   time.Duration
	users   func(ctx context.Context, name string) ([]string, error)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: filepath.Join(t.TempDir(), "volumes"), plugins: t.TempDir(), private: t.TempDir(), logged: &strings.Builder{},
		limit: 20 * time.Second,
		users: func(context.Context, string) ([]string, error) { return nil, nil },
		store: &store{rows: map[string]message.ClientHostVolumeState{}}}
	w.restart()
	return w
}

// restart replaces the Manager, as a restart of the agent does.
func (w *world) restart() {
	w.Manager = hostvolume.New(hostvolume.Config{VolumesDir: w.dir, PluginDir: w.plugins, NodeID: "node-1", NodePool: "pool-1",
		Private: []string{w.private}, Store: w.store,
		Changed: func() { w.changes++ }, Users: func(ctx context.Context, name string) ([]string, error) { return w.users(ctx, name) },
		Log: slog.New(slog.NewTextHandler(w.logged, nil)), FingerprintLimit: w.limit, CallLimit: w.limit})
}

// script installs a plugin.
func (w *world) script(id, body string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.plugins, id), []byte("#!/bin/sh\n"+strings.ReplaceAll(body, "PLUGINS", w.plugins)),
		0o755); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(v message.ClientHostVolumeCreateRequest) (*message.ClientHostVolumeCreateResponse, error) {
	return w.Create(w.t.Context(), &v)
}

// fails fails the test unless err contains all texts.
func fails(t *testing.T, what string, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %q", what, err, text)
			return
		}
	}
}

// only returns the names in a directory.
func only(t *testing.T, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	out := []string{}
	for _, e := range list {
		out = append(out, e.Name())
	}
	return fmt.Sprint(out)
}

func mkdirRequest(name string, params map[string]string) message.ClientHostVolumeCreateRequest {
	return message.ClientHostVolumeCreateRequest{ID: nomad.NewID(), Name: name, PluginID: "mkdir", Namespace: "default", Parameters: params}
}
