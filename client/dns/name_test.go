package dns_test

import (
	"fmt"
	"strings"
	"testing"

	miekg "github.com/miekg/dns"

	"github.com/open-nomad/open-nomad/client/dns"
)

// CanAsk is true for exactly those services and tags that a question finds.
func TestCanAsk(t *testing.T) {
	long := strings.Repeat("a", 63)
	longName := strings.Join([]string{long, long, long, strings.Repeat("b", 45)}, ".")
	cases := []struct {
		service, tag string
		want         bool
	}{
		{"web", "", true},
		{"a-b", "", true},
		{long, "", true},
		{"Web", "", false},
		{"service", "", true},
		{"web", "V1", true},
		{"web", "a_b", true},
		{"web", "_tcp", true},
		{"web", "with.dots", true},
		{"web", "a.service.b", true},
		{"web", "version=1", true},
		{"web", "urlprefix-/path", true},
		{"web", long, true},
		{"web", long + "a", false},
		{"web", longName, false},
		{"web", longName[2:], true},
		{"web", "a..b", false},
		{"web", ".a", false},
		{"web", "a.", false},
		{"web", "two words", false},
		{"web", "rule=Host(`x`)", false},
		{"web", "a;b", false},
		{"web", `a\b`, false},
		{"web", "a@b", false},
		{"web", "it's", false},
		{"web", `"a"`, false},
		{"web", "größe", false},
		{"Web", "v1", false},
	}
	address := func(i int) string { return fmt.Sprintf("192.0.2.%d", 100+i) }
	all := services{}
	for i, c := range cases {
		key := "default/" + c.service
		all[key] = append(all[key], instance("n1", address(i), 80, "", c.tag))
	}
	n := start(t, func(cfg *dns.Config) { cfg.Catalogue = all })
	for i, c := range cases {
		name := strings.TrimPrefix(c.tag+"."+c.service, ".") + ".service.nomad"
		if c.tag == "" {
			name = c.service + ".service.nomad"
		}
		got, err := n.ask(question{name: presented(name), kind: miekg.TypeA, tcp: true})
		if found := err == nil && strings.Contains(short(got), address(i)); found != c.want {
			t.Errorf("tag %q of service %q is found: %t, want %t: %v, %v", c.tag, c.service, found, c.want, got, err)
		}
		if got := dns.CanAsk(c.service, c.tag); got != c.want {
			t.Errorf("CanAsk(%q, %q) = %t, want %t", c.service, c.tag, got, c.want)
		}
	}
}

// presented returns the text of a name in which every other byte than letters, digits, dashes and dots is escaped.
func presented(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c == '.' || c == '-' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "\\%03d", c)
		}
	}
	return b.String()
}
