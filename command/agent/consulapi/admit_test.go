package consulapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/consulapi"
)

func TestToken(t *testing.T) {
	for name, header := range map[string][]string{
		"header": {"X-Consul-Token", secret},
		"bearer": {"Authorization", "Bearer " + secret},
		"both":   {"X-Consul-Token", secret, "Authorization", "bearer " + secret},
		"ours":   {"X-Consul-Token", secret, "X-Nomad-Token", "other"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegion()
			r.acl = true
			w := send(newServer(r), "GET", "/v1/catalog/services", header...)
			if w.Code != 200 || !slices.Equal(r.tokens, []string{secret}) {
				t.Errorf("%d %s with the tokens %q", w.Code, w.Body, r.tokens)
			}
			if got := w.Header().Get("X-Consul-Default-Acl-Policy"); got != "deny" {
				t.Errorf("policy %q", got)
			}
		})
	}
	r := newRegion()
	r.acl = true
	if w := send(newServer(r), "GET", "/v1/catalog/services?token="+secret); w.Code != 200 {
		t.Errorf("in the query: %d %s", w.Code, w.Body)
	}
}

func TestToken_Refused(t *testing.T) {
	for name, c := range map[string]struct {
		code   int
		target string
		header []string
	}{
		"none":                {403, "/v1/catalog/services", nil},
		"another":             {403, "/v1/catalog/services", []string{"X-Consul-Token", "other"}},
		"only ours":           {403, "/v1/catalog/services", []string{"X-Nomad-Token", secret}},
		"two headers":         {400, "/v1/catalog/services", []string{"X-Consul-Token", secret, "X-Consul-Token", "other"}},
		"header and bearer":   {400, "/v1/catalog/services", []string{"X-Consul-Token", secret, "Authorization", "Bearer other"}},
		"header and query":    {400, "/v1/catalog/services?token=other", []string{"X-Consul-Token", secret}},
		"two in the query":    {400, "/v1/catalog/services?token=a&token=b", nil},
		"basic":               {400, "/v1/catalog/services", []string{"Authorization", "Basic eDp5"}},
		"no bytes of a token": {403, "/v1/catalog/services?token=a%0d%0ab", nil},
		"long":                {403, "/v1/catalog/services", []string{"X-Consul-Token", strings.Repeat("a", 9000)}},
		"self":                {403, "/v1/agent/self", nil},
		"node-meta":           {403, "/v1/catalog/services?node-meta=a:b", []string{"X-Consul-Token", secret}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegion()
			r.acl = true
			w := send(newServer(r), "GET", c.target, c.header...)
			if w.Code != c.code || c.code == 403 && !strings.HasPrefix(w.Body.String(), "Permission denied") {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if strings.Contains(w.Body.String(), secret) || strings.Contains(w.Body.String(), "other") {
				t.Errorf("the answer has the token: %s", w.Body)
			}
		})
	}
}

func TestHost(t *testing.T) {
	s := newServer(newRegion())
	for host, want := range map[string]int{
		"127.0.0.1:8500": 200, "[::1]:8500": 200, "localhost:8500": 200, "localhost": 200, "127.0.0.1": 200, "::1": 200,
		"evil.example:8500": 403, "localhost.evil.example": 403, "x.localhost": 403, "127.0.0.1.evil.example": 403, "2130706433": 403,
	} {
		if w := send(s, "GET", "/v1/catalog/services", "Host", host); w.Code != want {
			t.Errorf("Host %s: %d %s", host, w.Code, w.Body)
		}
	}
}

func TestPages(t *testing.T) {
	s := newServer(newRegion())
	for name, header := range map[string][]string{
		"origin": {"Origin", "http://evil.example"}, "fetch": {"Sec-Fetch-Site", "cross-site"}, "null": {"Origin", "null"},
	} {
		w := send(s, "GET", "/v1/kv/app/db/host?raw", header...)
		if w.Code != 403 || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
}

func TestSizes(t *testing.T) {
	s := newServer(newRegion())
	many := strings.Repeat("tag=a&", 129)
	for target, want := range map[string]int{
		"/v1/kv/" + strings.Repeat("a", 3000):                        414,
		"/v1/catalog/services?x=" + strings.Repeat("a", 17<<10):      414,
		"/v1/catalog/service/web?" + many:                            400,
		"/v1/catalog/services?x=%zz":                                 400,
		"/v1/catalog/services?a=1;token=" + secret:                   400,
		"/v1/kv/" + strings.Repeat("a", 200):                         400,
		"/v1/kv/%00%ff?raw":                                          404,
		"/v1/catalog/service/web?region=other&namespace=kube-system": 200,
	} {
		if w := send(s, "GET", target); w.Code != want {
			t.Errorf("%.80s: %d %.200s, want %d", target, w.Code, w.Body, want)
		}
	}
}

func TestCheckAddress(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:8500": true, "[::1]:8500": true, "127.9.9.9:1": true,
		"0.0.0.0:8500": false, "10.0.0.1:8500": false, "[::]:8500": false, ":8500": false, "localhost:8500": false, "127.0.0.1:0": false,
		"127.0.0.1": false, "unix:///run/consul.sock": false,
	} {
		if err := consulapi.CheckAddress(address); (err == nil) != ok {
			t.Errorf("CheckAddress(%q) = %v", address, err)
		} else if err != nil && !strings.Contains(err.Error(), fmt.Sprintf("%q", address)) {
			t.Errorf("CheckAddress(%q) = %v: the address is not in the text", address, err)
		}
	}
}
