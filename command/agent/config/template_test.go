package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/template"
	"github.com/open-nomad/open-nomad/internal/render"
)

func TestTemplateConfig(t *testing.T) {
	s, err := load(t, map[string]string{"a.hcl": `
		data_dir = "/var/nomad"
		name = "n"
		client {
			enabled = true
			template {
				function_denylist = ["file"]
				function_blacklist = ["md5*"]
				disable_file_sandbox = true
				max_stale = "1h"
				block_query_wait = "2m"
				wait {
					min = "3s"
					max = "4s"
				}
				wait_bounds {
					min = "1s"
					max = "9s"
				}
				nomad_retry {
					attempts = 5
					backoff = "6s"
					max_backoff = "7s"
				}
				consul_retry {
					attempts = 8
					backoff = "9s"
					max_backoff = "10s"
				}
				vault_default_lease_duration = "11s"
				vault_retry {
					attempts = 12
					backoff = "13s"
					max_backoff = "14s"
				}
				use_client_consul_token = true
				share_client_consul_token = true
			}
		}`})
	if err != nil {
		t.Fatal(err)
	}
	want := template.Config{
		FunctionDenylist: []string{"file", "md5*"}, DisableFileSandbox: true, MaxStale: time.Hour, BlockQueryWait: 2 * time.Minute,
		Wait: render.Wait{Min: 3 * time.Second, Max: 4 * time.Second}, WaitBounds: render.Wait{Min: time.Second, Max: 9 * time.Second},
		NomadRetry:  render.Retry{Attempts: 5, Backoff: 6 * time.Second, MaxBackoff: 7 * time.Second},
		ConsulRetry: render.Retry{Attempts: 8, Backoff: 9 * time.Second, MaxBackoff: 10 * time.Second}, UseClientConsulToken: true,
		VaultRetry: render.Retry{Attempts: 12, Backoff: 13 * time.Second, MaxBackoff: 14 * time.Second}, VaultDefaultLease: 11 * time.Second,
	}
	if got := configs(t, s).Client.Template; !reflect.DeepEqual(got, want) {
		t.Errorf("template = %+v, want %+v", got, want)
	}
	defaults := configs(t, whole()).Client.Template
	if defaults.Wait != (render.Wait{Min: 5 * time.Second, Max: 4 * time.Minute}) || defaults.NomadRetry.Attempts != 12 ||
		defaults.ConsulRetry.Attempts != 0 || defaults.VaultRetry.Attempts != 0 || defaults.VaultDefaultLease != 5*time.Minute || defaults.UseClientConsulToken ||
		len(defaults.FunctionDenylist) != 2 {
		t.Errorf("defaults = %+v", defaults)
	}
}

func TestTemplateFaults(t *testing.T) {
	for text, want := range map[string]string{
		`max_stale = "-1s"`:                             "client.template.max_stale: must not be negative",
		`function_denylist = ["["]`:                     `client.template.function_denylist: "[" is not a pattern`,
		"wait {\n min = \"5m\"\n }":                     "client.template.wait.min: 5m0s is above wait.max",
		"wait_bounds {\n min = \"x\"\n }":               `client.template.wait_bounds.min: "x" is not a duration`,
		"wait_bounds {\n min = \"2s\"\n max=\"1s\"\n }": "client.template.wait_bounds: min is above max",
		"nomad_retry {\n attempts = -1\n }":             "client.template.nomad_retry.attempts: must not be negative",
		"consul_retry {\n attempts = -1\n }":            "client.template.consul_retry.attempts: must not be negative",
		"consul_retry {\n backoff = \"-1s\"\n }":        "client.template.consul_retry.backoff: must not be negative",
		"use_client_consul_token = true":                "client.template.use_client_consul_token: the templates of every job",
		"vault_retry {\n attempts = -1\n }":             "client.template.vault_retry.attempts: must not be negative",
		"vault_retry {\n max_backoff = \"-1s\"\n }":     "client.template.vault_retry.max_backoff: must not be negative",
		`vault_default_lease_duration = "0s"`:           "client.template.vault_default_lease_duration: must be above 0",
	} {
		_, err := load(t, map[string]string{"a.hcl": "data_dir = \"/var/nomad\"\nclient {\n enabled = true\n template {\n" + text + "\n}\n}"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
}
