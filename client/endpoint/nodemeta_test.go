package endpoint_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// shown formats metadata: a removed key has the value -.
func shown(m map[string]*string) string {
	out := map[string]string{}
	for k, v := range m {
		if out[k] = "-"; v != nil {
			out[k] = *v
		}
	}
	return fmt.Sprint(out)
}

func metaOf(t *testing.T, n *clienttest.Node) message.NodeMetaResponse {
	t.Helper()
	var got message.NodeMetaResponse
	if err := n.RPC().Call(t.Context(), "NodeMeta.Read", &message.NodeSpecificRequest{NodeID: n.NodeID()}, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func applyMeta(t *testing.T, n *clienttest.Node, changes map[string]string, unset ...string) (message.NodeMetaResponse, error) {
	t.Helper()
	req := &message.NodeMetaApplyRequest{NodeID: n.NodeID(), Meta: map[string]*string{}}
	for k, v := range changes {
		req.Meta[k] = &v
	}
	for _, k := range unset {
		req.Meta[k] = nil
	}
	var got message.NodeMetaResponse
	err := n.RPC().Call(t.Context(), "NodeMeta.Apply", req, &got)
	return got, err
}

// Changes are merged, registered with the servers, and kept when the agent restarts with another
// configuration.
func TestNodeMeta(t *testing.T) {
	f := clienttest.StartServer(t)
	dir := clienttest.Dir(t)
	cfg := clienttest.Config(dir, f.Addr())
	cfg.Meta = map[string]string{"rack": "r1", "zone": "z1"}
	n := clienttest.Start(t, cfg)
	if got := metaOf(t, n); len(got.Dynamic) != 0 || fmt.Sprint(got.Meta, got.Static) != "map[rack:r1 zone:z1] map[rack:r1 zone:z1]" {
		t.Errorf("at first: %+v", got)
	}
	for _, step := range []struct {
		set           map[string]string
		unset         []string
		meta, dynamic string
	}{
		{map[string]string{"rack": "r2", "a.b": ""}, nil, "map[a.b: rack:r2 zone:z1]", "map[a.b: rack:r2]"},
		{nil, []string{"rack", "a.b", "unknown"}, "map[zone:z1]", "map[rack:-]"},
		{map[string]string{"x": "1"}, []string{"zone"}, "map[x:1]", "map[rack:- x:1 zone:-]"},
	} {
		got, err := applyMeta(t, n, step.set, step.unset...)
		if err != nil || fmt.Sprint(got.Meta) != step.meta || shown(got.Dynamic) != step.dynamic ||
			fmt.Sprint(got.Static) != "map[rack:r1 zone:z1]" {
			t.Errorf("set %v, unset %v = %v, dynamic %s, %v", step.set, step.unset, got.Meta, shown(got.Dynamic), err)
		}
		f.Until(t, "the servers have the metadata "+step.meta, func() bool { return f.Node != nil && fmt.Sprint(f.Node.Meta) == step.meta })
	}
	n.Stop()
	cfg.Meta = map[string]string{"zone": "z2"} // rack is no longer static
	n = clienttest.Start(t, cfg)
	if got := metaOf(t, n); fmt.Sprint(got.Meta) != "map[x:1]" || shown(got.Dynamic) != "map[x:1 zone:-]" {
		t.Errorf("after a restart: %v, dynamic %s", got.Meta, shown(got.Dynamic))
	}
	f.Until(t, "the servers have the metadata again", func() bool { return maps.Equal(f.Node.Meta, map[string]string{"x": "1"}) })
	n.Stop()
	cfg.Meta = map[string]string{"rack": "r1", "zone": "z1"}
	if got := metaOf(t, clienttest.Start(t, cfg)); fmt.Sprint(got.Meta) != "map[rack:r1 x:1]" {
		t.Errorf("a removal that was dropped came back: %v", got.Meta)
	}
}

// A request that cannot be applied changes nothing.
func TestNodeMeta_Refusals(t *testing.T) {
	f := clienttest.StartServer(t)
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), f.Addr()))
	many := map[string]string{}
	for i := range 5000 {
		many[fmt.Sprintf("k%d", i)] = ""
	}
	for name, c := range map[string]struct {
		set  map[string]string
		want string
	}{
		"empty":       {nil, "missing required Meta object"},
		"empty key":   {map[string]string{"": "x"}, "valid dotted hcl identifiers"},
		"space":       {map[string]string{"ok": "x", "a b": "x"}, "valid dotted hcl identifiers"},
		"slash":       {map[string]string{"a/b": "x"}, "valid dotted hcl identifiers"},
		"two dots":    {map[string]string{"a..b": "x"}, "valid dotted hcl identifiers"},
		"digit":       {map[string]string{"1a": "x"}, "valid dotted hcl identifiers"},
		"many keys":   {many, "at most 4096 keys"},
		"large value": {map[string]string{"a": strings.Repeat("x", 1<<20)}, "1048576 bytes are allowed"},
	} {
		if _, err := applyMeta(t, n, c.set); clienttest.Code(err) != 400 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a 400 with %q", name, err, c.want)
		}
	}
	if got := metaOf(t, n); len(got.Dynamic) != 0 {
		t.Errorf("refused requests left %v", shown(got.Dynamic))
	}
}
