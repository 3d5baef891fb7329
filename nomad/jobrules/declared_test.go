package jobrules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// TestDeclaredText checks that a job whose registration the servers would refuse is refused.
func TestDeclaredText(t *testing.T) {
	many := map[string]string{}
	for i := range 64 {
		many[fmt.Sprint("k", i)] = ""
	}
	alike := map[string]string{"${A}": "ok", "${B}": "two\nlines"}
	for name, c := range map[string]struct {
		edit func(s *nomad.Service)
		want string // "" is a valid service
	}{
		"plain": {func(s *nomad.Service) {
			s.Tags, s.Meta, s.TaggedAddresses = []string{"a tag"}, map[string]string{"k": "a value"}, map[string]string{"wan": "192.0.2.1:80", "lan": "::1"}
		}, ""},
		"variables": {func(s *nomad.Service) {
			s.Meta, s.TaggedAddresses = map[string]string{"${A B}": "${C\n}", "${B}": ""}, map[string]string{"${X}": "${Y}", "v": "${Z}:80"}
		}, ""},
		"key with a space":    {func(s *nomad.Service) { s.Meta = map[string]string{"a b": ""} }, `meta has the key "a b"`},
		"empty key":           {func(s *nomad.Service) { s.Meta = map[string]string{"": "v"} }, `meta has the key ""`},
		"long key":            {func(s *nomad.Service) { s.Meta = map[string]string{strings.Repeat("k", 129): ""} }, "want 1 to 128 bytes"},
		"two lines":           {func(s *nomad.Service) { s.Meta = map[string]string{"k": "a\nb"} }, `the value of "k" in meta must be one line`},
		"long value":          {func(s *nomad.Service) { s.Meta = map[string]string{"k": strings.Repeat("v", 513)} }, "at most 512 bytes"},
		"alike, two lines":    {func(s *nomad.Service) { s.Meta = alike }, "must be one line"},
		"many":                {func(s *nomad.Service) { s.Meta = many }, "meta has 64 pairs: at most 63"},
		"canary meta":         {func(s *nomad.Service) { s.CanaryMeta = map[string]string{"a b": ""} }, `of canaries: meta has the key "a b"`},
		"tag":                 {func(s *nomad.Service) { s.Tags = []string{"a\x00b"} }, "control characters"},
		"canary tag":          {func(s *nomad.Service) { s.CanaryTags = []string{"a\nb"} }, "of canaries: tag"},
		"much text":           {func(s *nomad.Service) { s.Tags = []string{strings.Repeat("t", 33<<10)} }, "at most 32768"},
		"name of an address":  {func(s *nomad.Service) { s.TaggedAddresses = map[string]string{"a b": "::1"} }, "tagged_addresses has the name"},
		"address":             {func(s *nomad.Service) { s.TaggedAddresses = map[string]string{"a": "host"} }, "not an IP address, nor a host with a port"},
		"host with a newline": {func(s *nomad.Service) { s.TaggedAddresses = map[string]string{"a": "h\nx:80"} }, "an IP address or a DNS name"},
		"zone":                {func(s *nomad.Service) { s.TaggedAddresses = map[string]string{"a": "fe80::1%eth0"} }, "not an IP address"},
		"all addresses":       {func(s *nomad.Service) { s.TaggedAddresses = map[string]string{"a": "[::]:80"} }, "means every address"},
		"port":                {func(s *nomad.Service) { s.TaggedAddresses = map[string]string{"a": "h:0"} }, `invalid port: "0": want 1 to 65535`},
	} {
		for _, of := range []string{"group", "task"} {
			j := fresh(func(_ *nomad.TaskGroup, group, task *nomad.Service) {
				if of == "group" {
					c.edit(group)
				} else {
					c.edit(task)
				}
			})
			err := jobrules.Validate(j)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s of the %s: %v, want %q", name, of, err, c.want)
			}
		}
	}
}
