package csi_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

func TestVolume_AccessibleFrom(t *testing.T) {
	at := func(pairs ...string) *nomad.CSITopology {
		out := &nomad.CSITopology{Segments: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			out.Segments[pairs[i]] = pairs[i+1]
		}
		return out
	}
	type list = []*nomad.CSITopology
	for name, c := range map[string]struct {
		volume list
		node   *nomad.CSITopology
		want   bool
	}{
		"no topology":                         {nil, nil, true},
		"no topology, node with one":          {nil, at("zone", "a"), true},
		"node without a topology":             {list{at("zone", "a")}, nil, false},
		"node without segments":               {list{at("zone", "a")}, at(), false},
		"same":                                {list{at("zone", "a")}, at("zone", "a"), true},
		"another value":                       {list{at("zone", "a")}, at("zone", "b"), false},
		"empty value is not absence":          {list{at("zone", "")}, at("rack", "1"), false},
		"node has more segments":              {list{at("zone", "a")}, at("zone", "a", "rack", "1"), true},
		"node lacks a segment":                {list{at("zone", "a", "rack", "1")}, at("zone", "a"), false},
		"second of two":                       {list{at("zone", "a"), at("zone", "b")}, at("zone", "b"), true},
		"nil beside one":                      {list{nil, at("zone", "a")}, at("zone", "b"), false},
		"only nil":                            {list{nil}, nil, true},
		"without segments":                    {list{at()}, nil, true},
		"without segments beside one with it": {list{at(), at("zone", "a")}, at("zone", "b"), false},
	} {
		if got := (&csi.Volume{Topologies: c.volume}).AccessibleFrom(c.node); got != c.want {
			t.Errorf("%s: AccessibleFrom() = %t, want %t", name, got, c.want)
		}
	}
}

func TestResource(t *testing.T) {
	if got, want := csi.Resource("default", "data[0]"), "csi-volume:default:data[0]"; got != want {
		t.Errorf("Resource() = %q, want %q", got, want)
	}
}
