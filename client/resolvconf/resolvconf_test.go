package resolvconf_test

import (
	"reflect"
	"testing"

	"github.com/open-nomad/open-nomad/client/resolvconf"
	"github.com/open-nomad/open-nomad/nomad"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       nomad.DNSConfig
	}{
		{"an empty file", "", nomad.DNSConfig{}},
		{"servers in order", "nameserver 192.0.2.2\n\tnameserver\t2001:db8::1 # router\nnameserver 192.0.2.1",
			nomad.DNSConfig{Servers: []string{"192.0.2.2", "2001:db8::1", "192.0.2.1"}}},
		{"comments and unknown lines", "# nameserver 192.0.2.1\n;nameserver 192.0.2.2\nsortlist 192.0.2.0\nnameserver\n", nomad.DNSConfig{}},
		{"the last domain or search", "search a.example b.example\ndomain c.example\n", nomad.DNSConfig{Searches: []string{"c.example"}}},
		{"all options", "options ndots:2 rotate\noptions use-vc\n", nomad.DNSConfig{Options: []string{"ndots:2", "rotate", "use-vc"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := resolvconf.Parse(c.text); !reflect.DeepEqual(got, &c.want) {
				t.Errorf("Parse() = %+v, want %+v", *got, c.want)
			}
		})
	}
}
