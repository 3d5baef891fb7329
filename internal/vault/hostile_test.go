package vault_test

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"github.com/open-nomad/open-nomad/internal/vault"
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
	return "http://" + l.Addr().String()
}

// TestRedact_Hostile checks that no error of a request has text of the answer, control characters, the path or the token.
// The library repeats some of the requests, so the cases run in parallel.
func TestRedact_Hostile(t *testing.T) {
	const canary = "cAnArY\x1b[31m"
	body := func(text string) string { return "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + text }
	for name, answer := range map[string]string{
		"not HTTP":          canary + "\r\n\r\n",
		"status line":       "HTTP/1.1 " + canary + "\r\n\r\n",
		"header line":       "HTTP/1.1 200 OK\r\n" + canary + "\r\n\r\n",
		"content length":    "HTTP/1.1 200 OK\r\nContent-Length: " + canary + "\r\n\r\n",
		"transfer encoding": "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + canary + "\r\n\r\n",
		"chunk":             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + canary + "\r\n",
		"redirect":          "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/cAnArY\r\n\r\n",
		"redirect nowhere":  "HTTP/1.1 307 Found\r\nLocation: ht!tp://cAnArY\r\n\r\n",
		"not JSON":          body(canary),
		"another type":      body(`"` + canary + `"`),
		"number":            body(`{"lease_id":` + strings.Repeat("1234567890", 1000) + `}`),
		"warnings":          body(`{"warnings":{"cAnArY":1}}`),
		"too large":         body(`{"data":{"a":"` + strings.Repeat("cAnArY", 1<<20) + `"}}`),
		"denied":            "HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n" + `{"errors":["` + "cAnArY" + `"]}`,
		"denied, not JSON":  "HTTP/1.1 400 cAnArY\r\nConnection: close\r\n\r\n" + canary,
		"failed":            "HTTP/1.1 500 cAnArY\r\nConnection: close\r\n\r\n" + canary,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster(t, hostile(t, answer))
			s, err := c.Client("t0ken", "").Logical().ReadWithContext(t.Context(), "secret/p4th")
			if err == nil {
				t.Fatalf("no error: %.100v", s)
			}
			text := vault.Redact(err).Error()
			for _, wrong := range []string{"cAnArY", "1234567890123", "t0ken", "p4th"} {
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

// TestRedirect checks that a redirect is an error, is not repeated, and does not get the token.
func TestRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirect was followed, with the token %q", r.Header.Get("X-Vault-Token"))
	}))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		requests := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests++
			http.Redirect(w, r, elsewhere.URL, status)
		}))
		defer s.Close()
		_, err := cluster(t, s.URL).Client("t0ken", "").Logical().ReadWithContext(t.Context(), "secret/x")
		if err == nil || !strings.Contains(vault.Redact(err).Error(), "redirect") || requests != 1 {
			t.Errorf("%d: error %v after %d requests", status, err, requests)
		}
	}
}
