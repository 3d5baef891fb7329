package csi

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	msgpack "github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// The list is empty, unless servers of another build stored plugins.
func TestList(t *testing.T) {
	var out message.CSIPluginListResponse
	if err := list(state.New(slog.New(slog.DiscardHandler)).Snapshot(), nil, &out); err != nil || out.Plugins == nil || len(out.Plugins) != 0 {
		t.Errorf("List() = %+v, %v", out, err)
	}
	restore := state.NewRestore(slog.New(slog.DiscardHandler))
	body, err := codec.Encode(map[string]any{"ID": "ebs"})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(state.Tables(), func(r state.Record) bool { return r.Name == "CSIPlugin" })
	if err := state.Tables()[i].Read(restore, func(v any) error { *v.(*msgpack.Raw) = body; return nil }); err != nil {
		t.Fatal(err)
	}
	err = list(restore.Finish().Snapshot(), nil, &out)
	if err == nil || !strings.Contains(err.Error(), "not part of this version: 1 are stored") {
		t.Errorf("List() with a stored plugin: %v", err)
	}
}
