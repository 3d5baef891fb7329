package sdk_test

import (
	"net/http"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// Repeated and leading slashes of a path are removed. A trailing slash and an escaped one are
// stored unchanged.
func TestVariablePaths(t *testing.T) {
	a := harness.DevAgent(t)
	for path, want := range map[string]string{"/v1/var//a//b": "/v1/var/a/b", "/v1/var///a?cas=0": "/v1/var/a?cas=0",
		"//v1///jobs": "/v1/jobs",
		"/v1/var/a//": "/v1/var/a/", "//evil.example/": "/evil.example/", "/v1/var//%2Fa%20b": "/v1/var/%2Fa%20b"} {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
			resp, body := harness.Request(t, method, a.Address()+path, `{"Items":{"k":"v"}}`, nil)
			if resp.StatusCode != http.StatusTemporaryRedirect || resp.Header.Get("Location") != want || body != "" {
				t.Errorf("%s %s: %d to %q, %q, want 307 to %q", method, path, resp.StatusCode, resp.Header.Get("Location"), body, want)
			}
		}
	}
	if list, _, err := harness.SDKClient(t, a, "").Variables().List(nil); err != nil || len(list) != 0 {
		t.Errorf("variables after these = %v, %v", list, err)
	}
	for path, stored := range map[string]string{"t/": "t/", "x%2F%2Fy": "x//y", "%2Fz": "/z", "plain/path": "plain/path"} {
		if resp, body := harness.Request(t, http.MethodPut, a.Address()+"/v1/var/"+path, `{"Items":{"k":"v"}}`,
			nil); resp.StatusCode != http.StatusOK || !harness.ContainsJSON(body, `"Path":"`+stored+`"`) {
			t.Errorf("PUT of %s: %d %s", path, resp.StatusCode, body)
		}
		if resp, body := harness.Get(t, a, "/v1/var/"+path); resp.StatusCode != http.StatusOK ||
			!harness.ContainsJSON(body, `"Path":"`+stored+`"`) {
			t.Errorf("GET of %s: %d %s", path, resp.StatusCode, body)
		}
	}
}

// An SDK whose address ends in a slash works, also for writes.
func TestSDKFollowsCleanPaths(t *testing.T) {
	a := harness.DevAgent(t)
	c, err := sdk.NewClient(&sdk.Config{Address: a.Address() + "/"})
	if err != nil {
		t.Fatal(err)
	}
	v := sdk.NewVariable("/app/one/")
	v.Items["k"] = "v"
	made, _, err := c.Variables().Create(v, nil)
	if err != nil || made.Path != "app/one" {
		t.Fatalf("Create() = %+v, %v", made, err)
	}
	var out sdk.Variable
	if _, err := c.Raw().Write("/v1/var//app//two", &sdk.Variable{Items: sdk.VariableItems{"k": "v"}}, &out, nil); err != nil ||
		out.Path != "app/two" {
		t.Errorf("a write that is redirected = %+v, %v", out, err)
	}
	if _, err := c.Raw().Write("/v1/var/app//three", &sdk.Variable{Path: "app//three", Items: sdk.VariableItems{"k": "v"}}, &out,
		nil); err == nil {
		t.Error("a variable whose path does not match that of the request is stored")
	}
}
