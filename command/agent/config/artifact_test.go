package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/artifact"
	"github.com/open-nomad/open-nomad/internal/fetch"
)

func TestArtifactConfig(t *testing.T) {
	t.Setenv("ARTIFACT_A", "value")
	s, err := load(t, map[string]string{"a.hcl": `
		data_dir = "/var/nomad"
		name = "n"
		client {
			enabled = true
			artifact {
				http_read_timeout = "1s"
				gcs_timeout = "2s"
				git_timeout = "3s"
				hg_timeout = "4s"
				s3_timeout = "5s"
				http_max_size = "6MB"
				decompression_size_limit = "0"
				decompression_file_count_limit = 7
				disable_artifact_inspection = true
				disable_filesystem_isolation = true
				filesystem_isolation_extra_paths = ["d:rx:/opt/a", "f:r:/etc/b:c"]
				set_environment_variables = "ARTIFACT_A, ARTIFACT_NONE"
				cache_size = "8GiB"
			}
		}`})
	if err != nil {
		t.Fatal(err)
	}
	want := artifact.Config{
		Limits:    fetch.Limits{Download: 6e6, Files: 7},
		Timeouts:  fetch.Timeouts{HTTP: time.Second, GCS: 2 * time.Second, Git: 3 * time.Second, Hg: 4 * time.Second, S3: 5 * time.Second},
		KeepLinks: true, Unconfined: true, CacheSize: 8 << 30,
		ExtraPaths: []artifact.ExtraPath{{Modes: "rx", Name: "/opt/a"}, {Modes: "r", Name: "/etc/b:c"}},
		Env:        map[string]string{"ARTIFACT_A": "value", "ARTIFACT_NONE": ""},
	}
	if got := configs(t, s).Client.Artifact; !reflect.DeepEqual(got, want) {
		t.Errorf("artifact = %+v, want %+v", got, want)
	}
	defaults := configs(t, whole()).Client.Artifact
	if want := (fetch.Limits{Download: 100e9, Unpacked: 100e9, Files: 4096}); defaults.Limits != want || defaults.CacheSize != 2<<30 ||
		defaults.Timeouts.HTTP != 30*time.Minute {
		t.Errorf("defaults = %+v", defaults)
	}
}

func TestArtifactFaults(t *testing.T) {
	for text, want := range map[string]string{
		`http_read_timeout = "0s"`:                           "client.artifact.http_read_timeout: must be above 0",
		`hg_timeout = "-1s"`:                                 "client.artifact.hg_timeout: must be above 0",
		`http_max_size = "much"`:                             "client.artifact.http_max_size: must be a size",
		`cache_size = "-1"`:                                  "client.artifact.cache_size: must be a size",
		`decompression_file_count_limit = -1`:                "client.artifact.decompression_file_count_limit: must not be negative",
		`filesystem_isolation_extra_paths = ["/opt"]`:        "client.artifact.filesystem_isolation_extra_paths: \"/opt\" is not of the form",
		`filesystem_isolation_extra_paths = ["d:q:/opt"]`:    "is not of the form",
		`filesystem_isolation_extra_paths = ["x:r:/opt"]`:    "is not of the form",
		`filesystem_isolation_extra_paths = ["d:r:opt"]`:     "is not of the form",
		`filesystem_isolation_extra_paths = ["f:rc:/etc/a"]`: "mode c is for directories",
		`set_environment_variables = "A=b"`:                  `client.artifact.set_environment_variables: "A=b" is not the name of a variable`,
	} {
		_, err := load(t, map[string]string{"a.hcl": "data_dir = \"/var/nomad\"\nclient {\n enabled = true\n artifact {\n" + text + "\n}\n}"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
}
