package catalog_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/catalog"
)

func TestParseTagged(t *testing.T) {
	for _, tc := range []struct {
		give string
		want catalog.TaggedAddress
		err  string
	}{
		{"10.1.2.3", catalog.TaggedAddress{Address: "10.1.2.3", Port: 23000}, ""},
		{"10.1.2.3:80", catalog.TaggedAddress{Address: "10.1.2.3", Port: 80}, ""},
		{"fd00::1", catalog.TaggedAddress{Address: "fd00::1", Port: 23000}, ""},
		{"[fd00::1]:80", catalog.TaggedAddress{Address: "fd00::1", Port: 80}, ""},
		{"front_1.example.com:443", catalog.TaggedAddress{Address: "front_1.example.com", Port: 443}, ""},
		{"front.example.com", catalog.TaggedAddress{}, `error parsing address "front.example.com": not an IP address`},
		{"", catalog.TaggedAddress{}, `error parsing address ""`},
		{":80", catalog.TaggedAddress{}, "the host must be an IP address or a DNS name"},
		{"10.1.2.3:http", catalog.TaggedAddress{}, `invalid port: "http"`},
		{"10.1.2.3:0", catalog.TaggedAddress{}, `invalid port: "0"`},
		{"10.1.2.3:70000", catalog.TaggedAddress{}, `invalid port: "70000"`},
		{"0.0.0.0", catalog.TaggedAddress{}, "0.0.0.0 means every address"},
		{"[::]:80", catalog.TaggedAddress{}, ":: means every address"},
		{"fe80::1%x y", catalog.TaggedAddress{}, "not an IP address"},
		{"[fe80::1%x\ny]:80", catalog.TaggedAddress{}, "the host must be an IP address or a DNS name"},
		{"a b:80", catalog.TaggedAddress{}, "the host must be an IP address or a DNS name"},
		{strings.Repeat("a", 256) + ":80", catalog.TaggedAddress{}, "the host must be an IP address or a DNS name"},
	} {
		t.Run(tc.give, func(t *testing.T) {
			got, err := catalog.ParseTagged(tc.give, 23000)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("ParseTagged() = %v, want error %q", err, tc.err)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("ParseTagged() = %v, %v; want %v", got, err, tc.want)
			}
		})
	}
}
