package ui

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// token makes an ACL token and returns its accessor and its secret.
func (h *house) token(t *testing.T, rules string, ttl time.Duration) (accessor, secret string) {
	t.Helper()
	name := "p" + strings.NewReplacer("/", "-").Replace(t.Name())
	h.call(t, "PUT", "/v1/acl/policy/"+name, m{"Name": name, "Rules": rules}, nil)
	body := m{"Name": "of " + name, "Type": "client", "Policies": []string{name}}
	if ttl > 0 {
		body["ExpirationTTL"] = ttl.String()
	}
	var out struct{ AccessorID, SecretID string }
	h.call(t, "PUT", "/v1/acl/token", body, &out)
	return out.AccessorID, out.SecretID
}

func TestSignIn(t *testing.T) {
	h := open(t)
	p := h.with(t, "", "403")
	p.show(views[0])
	p.goTo("/ui/jobs", "Without a token you may read no jobs.")
	p.screenshot("signed-out")
	p.axe(views[0])
	p.click("Sign in")
	p.typeInto("Secret ID of an ACL token", "00000000-0000-0000-0000-000000000000")
	p.clickButton("Sign in")
	p.waitText("Your token is no longer accepted.")
	p.axe(views[0])
	p.typeInto("Secret ID of an ACL token", "  "+management+" ")
	p.clickButton("Sign in")
	p.waitText("Bootstrap Token")
	if stored := evaluate[string](p, "JSON.stringify([localStorage, document.cookie, location.href])"); strings.Contains(stored, management) {
		t.Errorf("the token is kept elsewhere: %s", stored)
	}
	p.goTo("/ui/jobs", "Live")
	p.click("Bootstrap Token")
	p.click("Sign out")
	p.waitText("Sign in with a token")
	if stored := evaluate[string](p, "JSON.stringify(sessionStorage)"); stored != "{}" {
		t.Errorf("after the sign-out the window keeps %s", stored)
	}
}

// A one-time token of the URL signs in, and is in no history afterwards. It works once.
func TestOneTimeToken(t *testing.T) {
	h := open(t)
	token, _, err := h.agent.Client.ACLTokens().UpsertOneTimeToken(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := h.with(t, "", "403", "400")
	p.show(views[0])
	p.goTo("/ui/jobs?ott="+token.OneTimeSecretID, "Live")
	if href := evaluate[string](p, "location.href"); strings.Contains(href, "ott") {
		t.Errorf("the URL keeps the token: %s", href)
	}
	again := h.with(t, "", "403", "400")
	again.goTo("/ui/jobs?ott="+token.OneTimeSecretID, "The one-time token was not accepted")
}

// A token that is deleted while a page is open: the page says so, keeps what it shows, and a new
// token goes on.
func TestRefusedToken(t *testing.T) {
	h := open(t)
	h.run(t, mock("refused", ""))
	accessor, secret := h.token(t, `namespace "default" { policy = "write" }`, 0)
	p := h.with(t, secret, "403")
	p.show(views[0])
	p.goTo(jobPath("refused", ""), "1 running")
	h.call(t, "DELETE", "/v1/acl/token/"+accessor, nil, nil)
	p.waitText("Your token is no longer accepted.")
	p.screenshot("refused")
	p.axe(views[0])
	p.click("Sign in again")
	p.typeInto("Secret ID of an ACL token", management)
	p.clickButton("Sign in")
	p.waitText("Bootstrap Token")
}

func TestExpiredToken(t *testing.T) {
	t.Parallel() // it mostly waits
	h := open(t)
	_, secret := h.token(t, `namespace "default" { policy = "read" }`, shortTTL)
	p := h.with(t, secret, "403")
	p.show(views[0])
	p.goTo("/ui/jobs?namespace=default", "Live")
	p.waitText("Your token is no longer accepted.")
}

// A token with few rights sees what it may read. Its pages are read again even if it may not read
// the event stream.
func TestFewRights(t *testing.T) {
	h := open(t)
	h.run(t, mock("seen", ""))
	_, secret := h.token(t, `namespace "default" { capabilities = ["list-jobs", "read-job"] }`, 0)
	p := h.with(t, secret, "403")
	p.show(views[0])
	p.goTo("/ui/", "Your token may not read the nodes.")
	p.goTo("/ui/jobs?q=seen", "1 running")
	p.goTo(jobPath("seen", ""), "Stop")
	p.click("Stop")
	p.pressIn("Stop")
	p.waitText("That did not work.")
	p.waitText("Permission denied")
	if h.job(t, "seen").Stop {
		t.Error("the job was stopped without the right")
	}
}

// The agent goes away and comes back: the page keeps its data, says so, and then goes on.
func TestAgentGone(t *testing.T) {
	h := open(t)
	dir := filepath.Join(h.dir, "gone")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	options := cluster.Options{
		Bin:  os.Args[0],
		Dir:  dir,
		Args: []string{"-server", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data")},
		Log:  &log,
	}
	a, err := cluster.Start(t.Context(), options)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	other := &house{dir: dir, agent: a, browser: h.browser}
	t.Cleanup(func() {
		if err := other.agent.Stop(); err != nil {
			t.Error(err)
		}
	})
	other.run(t, `job "kept" {
  type = "batch"
  parameterized {}
  group "g" {
    task "t" { driver = "mock_driver" }
  }
}`)
	p := other.with(t, "", "ERR_CONNECTION", "ERR_INCOMPLETE_CHUNKED", "ERR_EMPTY_RESPONSE", "500", "503")
	p.show(views[0])
	p.goTo("/ui/jobs", "kept")
	p.waitText("Live")
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	p.waitText("The agent does not answer.")
	p.waitText("kept")
	p.screenshot("gone")
	p.axe(views[0])
	restarted := a.Options
	testpace.Until(t, "the agent is back", func() bool {
		back, err := cluster.Start(t.Context(), restarted)
		if err != nil {
			t.Log(err)
			return false
		}
		other.agent = back
		return true
	})
	p.wait("the page goes on", fmt.Sprintf("!document.body.innerText.includes(%q) && "+
		"document.body.innerText.includes('Live')", "The agent does not answer."))
}
