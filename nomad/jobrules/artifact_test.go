package jobrules_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// minisignKey is the public key of the project minisign.
const minisignKey = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"

func TestValidateArtifacts(t *testing.T) {
	type artifact = nomad.TaskArtifact
	type verify = nomad.ArtifactVerify
	const ok = "https://host/file.tgz"
	sum := strings.Repeat("ab", 32)
	for _, c := range []struct {
		name string
		a    *artifact
		want string // "" is fine
	}{
		{"plain", &artifact{GetterSource: ok, GetterMode: "any", RelativeDest: "local/"}, ""},
		{"everything", &artifact{GetterSource: ok + "//sub", GetterMode: "dir", RelativeDest: "../alloc/data",
			GetterOptions: map[string]string{"checksum": "sha256:" + sum},
			GetterHeaders: map[string]string{"X-Token": "a b"}, Chown: true,
			Verify: &verify{MinisignKey: minisignKey, Signature: "https://other/sig"}}, ""},
		{"key as a file", &artifact{GetterSource: ok,
			Verify: &verify{MinisignKey: "untrusted comment: minisign public key\n" + minisignKey + "\n"}}, ""},
		{"references", &artifact{GetterSource: "${meta.x}", GetterMode: "${meta.m}", RelativeDest: "${NOMAD_ALLOC_DIR}/data",
			GetterOptions: map[string]string{"checksum": "${meta.c}"},
			GetterHeaders: map[string]string{"${meta.h}": "${meta.v}"}, Verify: &verify{MinisignKey: "${meta.k}", Signature: "${meta.s}"}}, ""},
		{"git", &artifact{GetterSource: "git::https://host/repo", RelativeDest: "local/repo"}, ""},
		{"absolute destination, as in Nomad", &artifact{GetterSource: ok, RelativeDest: "/local/x"}, ""},
		{"no source", &artifact{}, "source is empty: set source"},
		{"control character", &artifact{GetterSource: "https://host/\n"}, "control character"},
		{"file", &artifact{GetterSource: "file:///etc/passwd"}, "source: local files are not supported: use a URL"},
		{"local path", &artifact{GetterSource: "/etc/passwd"}, "source: local files are not supported"},
		{"scheme", &artifact{GetterSource: "ftp://host/x"}, `source: unknown scheme "ftp": use http or https`},
		{"kind", &artifact{GetterSource: "svn::https://host/x"}, `source: unknown kind "svn": use git, hg`},
		{"git of a local path", &artifact{GetterSource: "git::file:///srv/repo"}, "source: local files are not supported"},
		{"checksum type", &artifact{GetterSource: ok, GetterOptions: map[string]string{"checksum": "crc32:00"}},
			`options: unknown checksum type "crc32": use md5, sha1, sha256, sha512 or file`},
		{"checksum in the source", &artifact{GetterSource: ok + "?checksum=sha256:00"}, "options: checksum"},
		{"checksum length", &artifact{GetterSource: ok, GetterOptions: map[string]string{"checksum": "sha512:" + sum}}, "sha512 has 64"},
		{"mode", &artifact{GetterSource: ok, GetterMode: "tree"}, `mode is "tree": use any, file or dir`},
		{"destination", &artifact{GetterSource: ok, RelativeDest: "../../x"},
			`destination "../../x" is outside the directory of the task and the shared directory: use`},
		{"logs", &artifact{GetterSource: ok, RelativeDest: "../alloc/data/../logs"}, `is in the directory of the logs`},
		{"another name than logs", &artifact{GetterSource: ok, RelativeDest: "../alloc/logs2"}, ""},
		{"destination of another task", &artifact{GetterSource: ok, RelativeDest: "../db/local"}, "is outside the directory of the task"},
		{"destination of the allocation", &artifact{GetterSource: ok, RelativeDest: ".."}, "is outside the directory of the task"},
		{"destination with a reference", &artifact{GetterSource: ok, RelativeDest: "../../${meta.x}"}, "is outside the directory of the task"},
		{"destination with a newline", &artifact{GetterSource: ok, RelativeDest: "local/\n"}, "control character"},
		{"header", &artifact{GetterSource: ok, GetterHeaders: map[string]string{"X Token": "x"}}, `headers: "X Token" is not a valid header`},
		{"header value", &artifact{GetterSource: ok, GetterHeaders: map[string]string{"X-Token": "a\r\nb: c"}},
			`headers: "X-Token" is not a valid header`},
		{"no key", &artifact{GetterSource: ok, Verify: &verify{}}, "verify: minisign_key: missing: set it"},
		{"key", &artifact{GetterSource: ok, Verify: &verify{MinisignKey: "abc"}}, "verify: minisign_key: not a public key of minisign: use"},
		{"signature", &artifact{GetterSource: ok, Verify: &verify{MinisignKey: minisignKey, Signature: "file:///x"}},
			"verify: signature: local files"},
		{"signature of a repository", &artifact{GetterSource: "git::https://host/repo", Verify: &verify{MinisignKey: minisignKey}},
			"verify: a download with git is not a file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := sample("service")
			j.TaskGroups[0].Tasks[0].Artifacts = []*artifact{c.a}
			jobrules.Canonicalize(j)
			err := jobrules.Validate(j)
			if c.want == "" && err != nil {
				t.Errorf("Validate() = %v", err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Validate() = %v, want an error with %q", err, c.want)
			}
		})
	}
}

// A message names the artifact without its credentials.
func TestArtifactCredentials(t *testing.T) {
	j := sample("service")
	j.TaskGroups[0].Tasks[0].Artifacts = []*nomad.TaskArtifact{{
		GetterSource: "https://user:password@host/x?token=secret", GetterMode: "tree", GetterHeaders: map[string]string{"A B": "header"},
	}}
	jobrules.Canonicalize(j)
	err := jobrules.Validate(j)
	if err == nil || !strings.Contains(err.Error(), `artifact "https://host/x"`) {
		t.Fatalf("Validate() = %v", err)
	}
	for _, secret := range []string{"password", "secret", "header\""} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("Validate() = %v, which contains %s", err, secret)
		}
	}
}
