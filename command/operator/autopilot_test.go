package operator

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Records that are stored but not served are listed after the servers, without effect on the exit code.
func TestHealthShowsUnservedFeatures(t *testing.T) {
	for name, c := range map[string]struct{ field, want string }{
		"none": {"", ""},
		"some": {`,"Unserved":["3 periodic jobs will not be launched","services of 1 job will not be registered or checked by clients of this version"]`,
			"\nUnserved features\n3 periodic jobs will not be launched\n" +
				"services of 1 job will not be registered or checked by clients of this version\n"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"Healthy":true,"Servers":[{"ID":"one","LastContact":"0s"}]%s}`, c.field)
			}))
			defer agent.Close()
			var out, errs bytes.Buffer
			code := autopilotHealthCommand().Adapt(nil, &out, &errs).Run([]string{"-address=" + agent.URL})
			if _, got, _ := strings.Cut(out.String(), "one"); code != 0 || errs.Len() > 0 || !strings.HasSuffix(got, c.want) || c.want == "" &&
				strings.Contains(got, "Unserved") {
				t.Errorf("the command exits with %d and prints\n%s%s, want\n%s", code, out.String(), errs.String(), c.want)
			}
		})
	}
}
