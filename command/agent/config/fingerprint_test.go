package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/fingerprint/cloud"
)

func clientFile(block string) map[string]string {
	return map[string]string{"a.hcl": "data_dir = \"/var/nomad\"\nclient {\n enabled = true\n" + block + "\n}\n"}
}

// The fingerprint blocks, the lists and the environment configure the cloud fingerprinters.
func TestClouds(t *testing.T) {
	plain := []cloud.Provider{{Name: "env_aws"}, {Name: "env_azure"}, {Name: "env_digitalocean"},
		{Name: "env_gce", URL: "http://10.0.0.1/gce"}}
	aws := []cloud.Provider{{Name: "env_aws", RetryAttempts: 3, RetryInterval: 5 * time.Second, ExitOnFailure: true}}
	t.Setenv("GCE_ENV_URL", "http://10.0.0.1/gce")
	for what, c := range map[string]struct {
		block string
		want  []cloud.Provider
	}{
		"default": {"", plain},
		"allowed": {"options = { \"fingerprint.allowlist\" = \"cpu,env_aws\" }\nfingerprint \"env_aws\" {\n retry_interval = \"5s\"\n" +
			" retry_attempts = 3\n exit_on_failure = true\n}", aws},
		"denied": {`options = { "fingerprint.denylist" = "env_azure,env_digitalocean,env_aws" }`, plain[3:]},
		"none":   {`options = { "fingerprint.allowlist" = "cpu" }`, nil},
		"block": {"options = { \"fingerprint.allowlist\" = \"env_aws\" }\nfingerprint \"env_aws\" {\n retry_attempts = -1\n}",
			[]cloud.Provider{{Name: "env_aws", RetryAttempts: -1, RetryInterval: 2 * time.Second}}},
	} {
		s, err := load(t, clientFile(c.block))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := configs(t, s).Client.Clouds; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", what, got, c.want)
		}
	}
}

func TestCloudFaults(t *testing.T) {
	for what, c := range map[string]struct{ block, url, want string }{
		"name": {block: `fingerprint "env_x" {}`,
			want: `client.fingerprint.env_x: unknown cloud fingerprinter "env_x": use one of env_aws, env_azure, env_digitalocean, env_gce`},
		"host": {block: `fingerprint "cpu" {}`, want: `client.fingerprint.cpu: unknown cloud fingerprinter "cpu"`},
		"interval": {block: "fingerprint \"env_aws\" {\n retry_interval = \"-1s\"\n}",
			want: "client.fingerprint.env_aws: retry_interval must not be negative"},
		"address": {url: "https://10.0.0.1/", want: "AWS_ENV_URL must be an address such as http://169.254.169.254/latest/meta-data/"},
	} {
		t.Setenv("AWS_ENV_URL", c.url)
		if _, err := load(t, clientFile(c.block)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error = %v, want %q", what, err, c.want)
		}
	}
	t.Setenv("AWS_ENV_URL", "https://10.0.0.1/")
	if _, err := load(t, clientFile(`options = { "fingerprint.denylist" = "env_aws" }`)); err != nil {
		t.Errorf("address of a denied fingerprinter: %v", err)
	}
}
