package docs_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/contextfile"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/internal/testcsi"
	"github.com/open-nomad/open-nomad/internal/testvault"
)

// A page controls how its blocks are run by HTML comments:
//
//	<!-- agent: -acl-enabled -->     flags of the page's agent, anywhere on the page
//	<!-- consul: agent.hcl -->       a stand-in of Consul with ACLs; the file of the page has the rules of the agent's token
//	<!-- vault -->                   a stand-in of Vault
//	<!-- csi -->                     the example of a CSI plugin, and its job
//	<!-- not run: <reason> -->       before a fence: the block is not run or checked
//	<!-- file: web.nomad.hcl -->     before a fence: the block is written to this file
//
// The sh and console blocks of a page run in order, in one shell and one directory. The agent runs
// the job "example" of 'nomad job init'. With -acl-enabled NOMAD_TOKEN is a management token.
//
// With a stand-in of Consul, the agent has a consul block with both identities, and CONSUL_HTTP_ADDR and CONSUL_HTTP_TOKEN
// are those of an administrator. The test fails if the agent does what its token does not allow. With a stand-in of Vault, the
// agent has a vault block with an identity, and VAULT_ADDR and VAULT_TOKEN are those of an administrator.
var consulRules = regexp.MustCompile(`(?m)^<!-- consul: (.*) -->$`)

var vaultPage = regexp.MustCompile(`(?m)^<!-- vault -->$`)

// csiPage matches the marker of a page that uses the example of a CSI plugin: its program is in the directory of the page, with
// the job file of csi-plugin.md.
var csiPage = regexp.MustCompile(`(?m)^<!-- csi -->$`)

var agentFlags = regexp.MustCompile(`(?m)^<!-- agent: (.*) -->$`)

// snippetLimit bounds the blocks of one page.
const snippetLimit = 90 * time.Second

// pagesAtOnce is the number of pages that run at a time. They mostly wait.
const pagesAtOnce = 6

// firstToken is the secret of the management token of pages with access control.
const firstToken = "3f0c7b9e-5a39-4b7c-9a54-6a1f3b0c9d21"

// TestSnippets runs the shell blocks of every page against an agent of its own.
func TestSnippets(t *testing.T) {
	slots := make(chan struct{}, pagesAtOnce)
	var group sync.WaitGroup
	ran := 0
	for _, p := range pages(t) {
		script, n := scriptOf(t, p)
		ran += n
		if n == 0 {
			continue
		}
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			t.Run(p.name, func(t *testing.T) { runPage(t, p, script) })
		})
	}
	group.Wait()
	if ran < 50 {
		t.Errorf("%d blocks were run, at least 50 were expected", ran)
	}
}

// scriptOf returns the script of a page and the number of blocks in it that run commands.
func scriptOf(t *testing.T, p docPage) (script string, blocks int) {
	t.Helper()
	var out strings.Builder
	out.WriteString(preamble)
	for _, b := range p.blocks {
		kind, value, _ := strings.Cut(b.note, ": ")
		text := b.text
		switch {
		case kind == "not run":
			if value == "" {
				t.Errorf("%s:%d: the marker has no reason", p.name, b.line)
			}
			continue
		case kind == "file":
			fmt.Fprintf(&out, "at=%d\nmkdir -p \"$(dirname '%s')\"\ncat > '%s' <<'END_OF_FILE'\n%sEND_OF_FILE\n", b.line, value, value, text)
			continue
		case b.lang == "console":
			text = typed(text)
		case b.lang != "sh" && b.lang != "shell":
			continue
		}
		blocks++
		fmt.Fprintf(&out, "at=%d\n%s\n", b.line, text)
	}
	return out.String(), blocks
}

// preamble begins every script. A plan exits with 1 when the job would change something. After
// "job run", which does not wait for the tasks of batch jobs, the script waits at most 10 s until no
// allocation is pending: a reader is slower than the next command of a script.
const preamble = `set -eEuo pipefail
trap 'echo "line $at: exit status $?: $BASH_COMMAND" >&2' ERR
nomad() {
  local code=0
  command nomad "$@" || code=$?
  if [ "${1-} ${2-}" = "job plan" ] && [ $code = 1 ]; then code=0; fi
  if [ "${1-} ${2-}" = "job run" ]; then settle; fi
  return $code
}
settle() {
  local i url="${NOMAD_ADDR-}/v1/allocations?namespace=%2A&filter=ClientStatus%20%3D%3D%20%22pending%22"
  for i in {1..100}; do
    case "$(curl -s -H "X-Nomad-Token: ${NOMAD_TOKEN-}" "$url" || true)" in
      '[{'*) sleep 0.1 ;;
      *) return 0 ;;
    esac
  done
}
`

// typed returns what a user types in a console block: lines after the prompt "$ ", and their
// continuation, after "> " or a backslash. The rest is output.
func typed(text string) string {
	var out strings.Builder
	more := false
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			command, ok = strings.CutPrefix(line, "> ")
		}
		if !ok && more {
			command, ok = line, true
		}
		if more = ok && strings.HasSuffix(line, `\`); ok {
			out.WriteString(command + "\n")
		}
	}
	return out.String()
}

// runPage runs the script of a page.
func runPage(t *testing.T, p docPage, script string) {
	var flags []string
	env := os.Environ()
	if m := agentFlags.FindStringSubmatch(p.text); m != nil {
		flags = strings.Fields(m[1])
	}
	o := cluster.Options{Dir: harness.TempDir(t)}
	cfg := filepath.Join(o.Dir, "exec2.hcl")
	harness.WriteFile(t, cfg, harness.UnveilConfig())
	o.Args = append([]string{"-dev", "-log-level=WARN", "-config=" + cfg}, flags...)
	if m := consulRules.FindStringSubmatch(p.text); m != nil {
		config, own := startConsul(t, p, m[1])
		harness.WriteFile(t, filepath.Join(o.Dir, "consul.hcl"), config)
		o.Args, env = append(o.Args, "-config="+filepath.Join(o.Dir, "consul.hcl")), append(env, own...)
	}
	if vaultPage.MatchString(p.text) {
		config, own := startVault(t)
		harness.WriteFile(t, filepath.Join(o.Dir, "vault.hcl"), config)
		o.Args, env = append(o.Args, "-config="+filepath.Join(o.Dir, "vault.hcl")), append(env, own...)
	}
	if csiPage.MatchString(p.text) {
		harness.WriteFile(t, filepath.Join(o.Dir, "csi.hcl"), "plugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}\n")
		o.Args = append(o.Args, "-config="+filepath.Join(o.Dir, "csi.hcl"))
	}
	if slices.Contains(flags, "-acl-enabled") {
		o.Secret = firstToken
		env = append(env, "NOMAD_TOKEN="+firstToken)
	}
	a := harness.Start(t, o)
	work := pageDir(t)
	if csiPage.MatchString(p.text) {
		addPlugin(t, work)
	}
	env = append(env, "NOMAD_ADDR="+a.Address(), "HOME="+work)
	ctx, cancel := context.WithTimeout(t.Context(), snippetLimit)
	defer cancel()
	bash(ctx, t, harness.TempDir(t), env, "nomad job init >/dev/null && nomad job run -detach example.nomad.hcl")
	harness.Within(t, time.Minute, "the job example runs", func() bool {
		allocs, _, err := a.Client.Jobs().Allocations("example", false, nil)
		return err == nil && slices.ContainsFunc(allocs, func(one *api.AllocationListStub) bool { return one.ClientStatus == "running" })
	})
	bash(ctx, t, work, env, script)
	harness.PurgeAll(t, a)
}

// addPlugin adds the example of a CSI plugin to the directory of a page, and its job.
func addPlugin(t *testing.T, work string) {
	t.Helper()
	const file = "storage.nomad.hcl"
	if err := os.Symlink(testcsi.Build(t), filepath.Join(work, "examplecsi")); err != nil {
		t.Fatal(err)
	}
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.note == "file: "+file {
				harness.WriteFile(t, filepath.Join(work, file), b.text)
			}
		}
	}
}

// startConsul starts a stand-in of Consul. It returns the configuration of the agent, whose token has the rules in a file of
// the page, and the environment of an administrator.
func startConsul(t *testing.T, p docPage, file string) (config string, env []string) {
	t.Helper()
	i := slices.IndexFunc(p.blocks, func(b docBlock) bool { return b.note == "file: "+file })
	if i < 0 {
		t.Fatalf("%s has no file %s", p.name, file)
	}
	c := testconsul.Start(t, testconsul.Config{ACL: true})
	const identity = "{\n    aud = [\"consul.io\"]\n    ttl = \"1h\"\n  }\n"
	config = fmt.Sprintf("consul {\n  address = %q\n  token = %q\n  service_identity %s  task_identity %s}\n", c.Addr(),
		c.NewToken(t, p.blocks[i].text), identity, identity)
	return config, []string{"CONSUL_HTTP_ADDR=" + c.Addr(), "CONSUL_HTTP_TOKEN=" + c.Management()}
}

// startVault starts a stand-in of Vault. It returns the configuration of the agent, and the environment of an administrator.
func startVault(t *testing.T) (config string, env []string) {
	t.Helper()
	v := testvault.Start(t, testvault.Config{})
	config = fmt.Sprintf("vault {\n  enabled = true\n  address = %q\n  default_identity {\n    aud = [\"vault.io\"]\n    ttl = \"1h\"\n  }\n}\n", v.Addr())
	return config, []string{"VAULT_ADDR=" + v.Addr(), "VAULT_TOKEN=" + v.Root()}
}

// pageDir returns the directory in which the blocks of a page run, with the program as bin/nomad.
func pageDir(t *testing.T) string {
	t.Helper()
	dir := harness.TempDir(t)
	bin, err := exec.LookPath("nomad")
	if err != nil {
		t.Fatal(err)
	}
	harness.Mkdir(t, filepath.Join(dir, "bin"))
	if err := os.Symlink(bin, filepath.Join(dir, "bin", "nomad")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// bash runs a script in dir.
func bash(ctx context.Context, t *testing.T, dir string, env []string, script string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, env, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with its children
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestConfigurationSnippets checks the hcl blocks of all pages that are neither part of a job file,
// which TestJobSnippets checks, nor the input of a command that TestSnippets runs: a policy and a file of contexts must
// parse, a configuration of the agent must pass 'nomad config validate'.
func TestConfigurationSnippets(t *testing.T) {
	base, checked := filepath.Join(harness.TempDir(t), "base.hcl"), 0
	harness.WriteFile(t, base, "data_dir = \"/var/lib/nomad\"\nclient {\n  enabled = true\n}\n") // blocks are parts of files
	for _, p := range pages(t) {
		if strings.HasPrefix(p.name, "jobspec") {
			continue // TestJobSnippets checks these
		}
		for _, b := range p.blocks {
			word, _, _ := strings.Cut(firstLine(b.text), " ")
			if b.lang != "hcl" || b.skipped() || strings.HasPrefix(b.note, "file: ") || jobLevels[word] != "" {
				continue
			}
			checked++
			if _, err := acl.Parse(b.text); err == nil {
				continue
			}
			name := filepath.Join(harness.TempDir(t), "agent.hcl")
			harness.WriteFile(t, name, b.text)
			if word == "current" || word == "context" {
				if _, err := contextfile.Load(private(t, name)); err != nil {
					t.Errorf("%s:%d: %v", p.name, b.line, err)
				}
				continue
			}
			if out, err := exec.Command("nomad", "config", "validate", base, name).CombinedOutput(); err != nil {
				t.Errorf("%s:%d: nomad config validate: %v\n%s", p.name, b.line, err, out)
			}
		}
	}
	if checked < 15 {
		t.Errorf("%d configurations and policies were checked, at least 15 were expected", checked)
	}
}

// private makes a file readable by its owner only and returns its name.
func private(t *testing.T, name string) string {
	t.Helper()
	if err := os.Chmod(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// firstLine returns the first line that is neither empty nor a comment.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return ""
}
