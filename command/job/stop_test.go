package job

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// TestStopLongID checks that a job whose ID does not fit in a URL is stopped with the ID in the body, by its complete ID
// and by a prefix.
func TestStopLongID(t *testing.T) {
	id := "par/dispatch-" + strings.Repeat("é", 20_000) + "-1-a"
	for name, given := range map[string]string{"complete": id, "prefix": "par/dispatch-é"} {
		t.Run(name, func(t *testing.T) {
			var stopped api.JobDeregisterRequest
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var reply any
				switch {
				case len(r.RequestURI) > 60_000:
					http.Error(w, "too large", http.StatusRequestHeaderFieldsTooLarge)
					return
				case r.Method == http.MethodGet && r.URL.Path == "/v1/jobs" && strings.HasPrefix(id, r.URL.Query().Get("prefix")):
					reply = []*api.JobListStub{{ID: id, Namespace: "default"}, {ID: id[:5000] + "other", Namespace: "default"}}
					if name == "prefix" {
						reply = []*api.JobListStub{{ID: id, Namespace: "default"}}
					}
				case r.Method == http.MethodPut && r.URL.Path == "/v1/jobs/stop":
					if err := json.NewDecoder(r.Body).Decode(&stopped); err != nil {
						t.Error(err)
					}
					reply = api.JobDeregisterResponse{}
				default:
					t.Errorf("%s %.60s", r.Method, r.RequestURI)
				}
				if err := json.NewEncoder(w).Encode(reply); err != nil {
					t.Error(err)
				}
			}))
			defer srv.Close()
			var out strings.Builder
			if code := stopCommand().Adapt(strings.NewReader(""), &out,
				&out).Run([]string{"-address=" + srv.URL, "-purge", "-yes", given}); code != 0 {
				t.Fatalf("exit code %d: %.300s", code, out.String())
			}
			if stopped.JobID != id || !stopped.Purge {
				t.Errorf("stopped %.30q of %d bytes, purge %v", stopped.JobID, len(stopped.JobID), stopped.Purge)
			}
		})
	}
}
