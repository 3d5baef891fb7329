package enterprise

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The commands work with an agent that has a license.
func TestLicensedAgent(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.RequestURI() {
		case "GET /v1/operator/license":
			w.Write([]byte(`{"License":{"LicenseID":"l"}}`))
		case "PUT /v1/operator/utilization?today=true":
			w.Write([]byte(`{"Bundle":"e30="}`))
		default:
			http.Error(w, r.RequestURI, http.StatusTeapot)
		}
	}))
	defer s.Close()
	run := func(i int, args ...string) (int, string) {
		var out strings.Builder
		return Commands()[i].Adapt(strings.NewReader(""), &out, &out).Run(append(args, "-address="+s.URL)), out.String()
	}
	if code, out := run(0); code != 0 || !strings.Contains(out, `"LicenseID":"l"`) {
		t.Errorf("license get: %d, %s", code, out)
	}
	file := filepath.Join(t.TempDir(), "report")
	if code, out := run(1, "-today-only", "-output="+file); code != 0 || out != "Wrote "+file+"\n" {
		t.Errorf("operator utilization: %d, %s", code, out)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "{}" {
		t.Errorf("report %q, %v", text, err)
	}
	if code, out := run(1, "-today-only", "-output="+file); code != 1 || !strings.Contains(out, "file exists") {
		t.Errorf("a second report: %d, %s", code, out)
	}
}
