package csivolumes

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	msgpack "github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// alone is a cluster of one server, which leads.
type alone struct{ handler.Cluster }

func (alone) Contact() (bool, time.Duration) { return true, 0 }

// stored returns a Service on a state with a record of another build, or on an empty one.
func stored(t *testing.T, record string) *Service {
	t.Helper()
	restore := state.NewRestore(slog.New(slog.DiscardHandler))
	if record != "" {
		body, err := codec.Encode(map[string]any{"ID": "ebs"})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(state.Tables(), func(r state.Record) bool { return r.Name == record })
		if err := state.Tables()[i].Read(restore, func(v any) error { *v.(*msgpack.Raw) = body; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	store := restore.Finish()
	return New(handler.New(handler.Config{Store: func() *state.Store { return store }, Cluster: alone{}}))
}

// The lists are empty, unless servers of another build stored what they would list.
func TestLists(t *testing.T) {
	plugins := func(s *Service) (empty bool, err error) {
		out, err := s.List(t.Context(), nil, &message.CSIPluginListRequest{})
		return err == nil && out.Plugins != nil && len(out.Plugins) == 0, err
	}
	volumes := func(s *Service) (empty bool, err error) {
		out, err := s.ListVolumes(t.Context(), nil, &message.CSIVolumeListRequest{})
		return err == nil && out.Volumes != nil && len(out.Volumes) == 0, err
	}
	for name, c := range map[string]struct {
		list   func(*Service) (bool, error)
		record string
		want   string
	}{
		"plugins":                   {plugins, "", ""},
		"plugins with a volume":     {plugins, "CSIVolume", ""},
		"plugins with a plugin":     {plugins, "CSIPlugin", "CSI plugins: not part of this version: the state has some"},
		"volumes":                   {volumes, "", ""},
		"volumes with a plugin":     {volumes, "CSIPlugin", ""},
		"volumes with a CSI volume": {volumes, "CSIVolume", "CSI volumes: not part of this version: the state has some"},
	} {
		empty, err := c.list(stored(t, c.record))
		if empty != (c.want == "") || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: empty %t, %v; want %q", name, empty, err, c.want)
		}
	}
}
