package services

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// many returns n pairs.
func many(n int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[fmt.Sprint("k", i)] = strings.Repeat("v", 512)
	}
	return out
}

func TestCheckFields(t *testing.T) {
	check := func(edit func(*catalog.Check)) *catalog.Registration {
		c := &catalog.Check{ID: "c", Name: "alive", Type: "http", Status: catalog.Passing, Output: "HTTP 200\nok"}
		edit(c)
		return &catalog.Registration{Checks: []*catalog.Check{c}}
	}
	tagged := func(name, address string, port int) *catalog.Registration {
		return &catalog.Registration{TaggedAddresses: map[string]catalog.TaggedAddress{name: {Address: address, Port: port}}}
	}
	for name, c := range map[string]struct {
		r    *catalog.Registration
		want string // "" if it is valid
	}{
		"another build":    {&catalog.Registration{Tags: []string{"a b"}}, ""},
		"most metadata":    {&catalog.Registration{Meta: many(64)}, ""},
		"too much":         {&catalog.Registration{Meta: many(65)}, "65 pairs"},
		"long key":         {&catalog.Registration{Meta: map[string]string{strings.Repeat("k", 129): "v"}}, "meta has the key"},
		"no key":           {&catalog.Registration{Meta: map[string]string{"": "v"}}, "meta has the key"},
		"long value":       {&catalog.Registration{Meta: map[string]string{"k": strings.Repeat("v", 513)}}, "one line"},
		"value of 2 lines": {&catalog.Registration{Meta: map[string]string{"k": "v\nserver evil"}}, "one line"},
		"tag of 2 lines":   {&catalog.Registration{Tags: []string{"a\nserver evil"}}, "control characters"},
		"large":            {&catalog.Registration{Tags: []string{strings.Repeat("t", 64<<10), "t"}}, "the limit is 65536"},
		"weights":          {&catalog.Registration{Weights: &catalog.Weights{Passing: 65535}}, ""},
		"negative weight":  {&catalog.Registration{Weights: &catalog.Weights{Passing: -1}}, "weights"},
		"large weight":     {&catalog.Registration{Weights: &catalog.Weights{Warning: 65536}}, "weights"},
		"address":          {tagged("lan", "10.0.0.1", 80), ""},
		"address, space":   {tagged("lan", "10.0.0.1 ;", 80), "tagged address"},
		"address, name":    {tagged("", "10.0.0.1", 80), "name"},
		"address, port":    {tagged("lan", "10.0.0.1", 65536), "port"},
		"status":           {&catalog.Registration{Status: catalog.Critical}, ""},
		"unknown status":   {&catalog.Registration{Status: "maintenance"}, "status"},
		"check":            {check(func(*catalog.Check) {}), ""},
		"check, status":    {check(func(c *catalog.Check) { c.Status = "" }), "status"},
		"check, output":    {check(func(c *catalog.Check) { c.Output = strings.Repeat("evil", 65) }), "output"},
		"check, name":      {check(func(c *catalog.Check) { c.Name = "a\nserver evil" }), "one line"},
		"check, long name": {check(func(c *catalog.Check) { c.Name = strings.Repeat("evil", 65) }), "at most 256"},
		"no check":         {&catalog.Registration{Checks: []*catalog.Check{nil}}, "empty check"},
		"many checks":      {&catalog.Registration{Checks: make([]*catalog.Check, 65)}, "65 checks"},
	} {
		err := checkFields(c.r)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "evil") {
			t.Errorf("%s: the error has a text of the job, which the client would log: %v", name, err)
		}
	}
}

func TestCanonical(t *testing.T) {
	r := &catalog.Registration{Checks: []*catalog.Check{{Output: "a\nb\x1b[0m\xff"}}}
	if got := canonical(r).Checks[0].Output; got != "a b [0m " {
		t.Errorf("output = %q", got)
	}
	if r.Checks[0].Output != "a\nb\x1b[0m\xff" {
		t.Error("the request changed")
	}
}
