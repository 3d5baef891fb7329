package consul_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/consul"
)

// hostile serves the same bytes to each connection.
func hostile(t *testing.T, answer string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					r.Body.Close()
				}
				_, _ = c.Write([]byte(answer))
			}()
		}
	}()
	return l.Addr().String()
}

// TestRedact_Hostile checks that no error of a request has text of the answer, control characters, the token or the user
// of the address.
func TestRedact_Hostile(t *testing.T) {
	const canary = "cAnArY\x1b[31m"
	body := func(text string) string { return "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + text }
	for name, answer := range map[string]string{
		"not HTTP":             canary + "\r\n\r\n",
		"status line":          "HTTP/1.1 " + canary + "\r\n\r\n",
		"version":              "HTTP/" + canary + " 200 OK\r\n\r\n",
		"header line":          "HTTP/1.1 200 OK\r\n" + canary + "\r\n\r\n",
		"long header line":     "HTTP/1.1 200 OK\r\n" + strings.Repeat(canary, 10_000) + "\r\n\r\n",
		"endless header":       "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 11<<20) + "\r\n\r\n",
		"content length":       "HTTP/1.1 200 OK\r\nContent-Length: " + canary + "\r\n\r\n",
		"transfer encoding":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + canary + "\r\n\r\n",
		"chunk":                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + canary + "\r\n",
		"trailer":              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + canary + "\r\n\r\n",
		"redirect":             "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/cAnArY\r\n\r\n",
		"redirect nowhere":     "HTTP/1.1 302 Found\r\nLocation: ht!tp://cAnArY\r\n\r\n",
		"no body":              body(""),
		"not JSON":             body(canary),
		"another type":         body(`"` + canary + `"`),
		"number for a string":  body(`{"Name":` + strings.Repeat("1234567890", 1000) + `,"AccessorID":1}`),
		"number of an integer": body(`{"CreateIndex":99999999999999999999999999}`),
		"time":                 body(`{"ExpirationTime":"cAnArY \u001b[31m ` + strings.Repeat("x", 100_000) + `"}`),
		"duration":             body(`{"ExpirationTTL":"cAnArY \u001b[31m ` + strings.Repeat("x", 100_000) + `"}`),
		"hash":                 body(`{"Hash":"cAnArY"}`),
		"status":               "HTTP/1.1 500 cAnArY\r\nConnection: close\r\n\r\n" + canary,
	} {
		t.Run(name, func(t *testing.T) {
			cfg := api.Config{Address: hostile(t, answer), Token: "t0ken", HttpAuth: &api.HttpBasicAuth{Username: "user", Password: "passw0rd"}}
			a, err := consul.New(consul.Settings{Name: consul.DefaultCluster, HTTP: cfg, Timeout: 5 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := a.Within(context.Background())
			defer cancel()
			token, _, err := a.Client().ACL().TokenRead("a/b?c\x1b[31m", (&api.QueryOptions{}).WithContext(ctx))
			if err == nil {
				t.Fatalf("no error: %.100v", token)
			}
			text := consul.Redact(err).Error()
			for _, wrong := range []string{"cAnArY", "1234567890123", "passw0rd", "t0ken", "a/b"} {
				if strings.Contains(text, wrong) {
					t.Errorf("the error has %q: %.300q", wrong, text)
				}
			}
			if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || len(text) > 512 {
				t.Errorf("the error has control characters, or %d bytes: %.300q", len(text), text)
			}
		})
	}
}

// TestNew_UserInAddress checks that an address with a user is refused: each error of a request would show the password.
func TestNew_UserInAddress(t *testing.T) {
	for _, address := range []string{"user:passw0rd@127.0.0.1:1", "http://user:passw0rd@127.0.0.1:1", "https://:passw0rd@[::1]"} {
		_, err := consul.New(consul.Settings{HTTP: api.Config{Address: address}})
		if err == nil || strings.Contains(err.Error(), "passw0rd") {
			t.Errorf("New(%q): %v", address, err)
		}
	}
	if _, err := consul.New(consul.Settings{HTTP: api.Config{Address: "unix:///run/a@b.sock"}}); err != nil {
		t.Errorf("New of a socket: %v", err)
	}
}

// TestClient_Objects checks that a short answer cannot make the agent allocate gigabytes, and that brackets in texts do not
// count.
func TestClient_Objects(t *testing.T) {
	list := func(element string) (int, uint64, error) {
		text := "[" + strings.Repeat(element+",", consul.MaxAnswer/len(element)/2) + element + "]"
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, text) }))
		defer s.Close()
		a, err := consul.New(consul.Settings{HTTP: api.Config{Address: s.URL}, Timeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, _, err := a.Client().Catalog().Service("web", "", nil)
		runtime.ReadMemStats(&after)
		return len(got), (after.TotalAlloc - before.TotalAlloc) >> 20, err
	}
	if _, mib, err := list("{}"); err == nil || mib > 400 {
		t.Errorf("objects: %d MiB, %v", mib, err)
	}
	if n, _, err := list(`{"Node":"\"` + strings.Repeat("[{", 200) + `\\"}`); err != nil || n < 10_000 {
		t.Errorf("brackets in texts: %d instances, %v", n, err)
	}
}

// TestEach checks that the size of a list is not limited, but that of its values is, and what is an error.
func TestEach(t *testing.T) {
	type value struct{ ID string }
	each := func(answer string) (got []string, err error) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Consul-Token") != "t0ken" || r.URL.String() != "/p/v1/list?ns=n" {
				t.Errorf("request %s, token %q", r.URL, r.Header.Get("X-Consul-Token"))
			}
			_, _ = io.WriteString(w, answer)
		}))
		defer s.Close()
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte("t0ken\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := consul.New(consul.Settings{HTTP: api.Config{Address: s.URL + "/p", TokenFile: file, Namespace: "n"}, Timeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		err = consul.Each(t.Context(), consul.List{Agent: a, Path: "/v1/list"}, func(key string, v *value) { got = append(got, key+"="+v.ID) })
		return got, err
	}
	long := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		answer string
		want   int // values, -1 for an error
	}{
		"none": {"{}\n", 0}, "null": {"null", 0}, "two": {`{"a":{"ID":"1"},"b":{"ID":"2","Tags":["{[",null]}}`, 2},
		"above MaxAnswer": {"{" + strings.Repeat(`"a":{"ID":"`+long+`"},`, 24) + `"b":{}}`, 25},
		"one value":       {`{"a":{"ID":"` + strings.Repeat(long, 5) + `"}}`, -1},
		"one key":         {`{"` + strings.Repeat(long, 5) + `":{}}`, -1},
		"values":          {"{" + strings.Repeat(`"a":{},`, 100_001) + `"b":{}}`, -1},
		"objects":         {`{"a":{"Tags":[` + strings.Repeat("[],", 1<<20) + `0]}}`, 1},
		"all objects":     {"{" + strings.Repeat(`"a":{"Tags":[`+strings.Repeat("[],", 1<<20)+`0]},`, 3) + `"b":{}}`, -1},
		"no object":       {"[]", -1}, "no JSON": {"cAnArY", -1}, "cut": {`{"a":{}`, -1}, "cut after a comma": {`{"a":{},`, -1},
		"another type": {`{"a":{"ID":{"cAnArY":1}}}`, -1}, "empty": {"", -1},
	} {
		got, err := each(c.answer)
		if (err != nil) != (c.want < 0) || err == nil && len(got) != c.want {
			t.Errorf("%s: %d values, %v", name, len(got), err)
		}
		if err != nil && (strings.Contains(consul.Redact(err).Error(), "cAnArY") || len(consul.Redact(err).Error()) > 512) {
			t.Errorf("%s: %v", name, consul.Redact(err))
		}
	}
}
