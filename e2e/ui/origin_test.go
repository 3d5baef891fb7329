package ui

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// hostilePage requests a URL in the ways of a page, and returns what it could read. A shape has no text, so "shown"
// means that the page embedded the reply.
const hostilePage = `(async () => {
	const out = []
	for (const path of %[2]s) {
		for (const [how, init] of [['fetch', {}], ['token', {headers: {'X-Nomad-Token': '11111111-2222-3333-4444-555555555555'}}], ['bearer', {headers: {Authorization: 'Bearer 11111111-2222-3333-4444-555555555555'}}], ['credentials', {credentials: 'include'}]]) {
			const stop = new AbortController()
			try {
				const reply = await fetch(%[1]q + path, {...init, signal: stop.signal})
				out.push(how + ' ' + path + ' ' + reply.status)
			} catch { } finally { stop.abort() }
		}
		await new Promise((done) => {
			const image = new Image()
			image.onload = () => { out.push('shown ' + path); done() }
			image.onerror = done
			image.src = %[1]q + path
		})
	}
	await new Promise((done) => {
		const socket = new WebSocket(%[1]q.replace('http', 'ws') + '/v1/client/allocation/8ba85cef-22b5-4e1d-9d8c-000000000001/exec?task=t&ws_handshake=true&command=%%5B%%22true%%22%%5D')
		socket.onopen = () => { out.push('websocket'); socket.close(); done() }
		socket.onerror = done
	})
	return out.join('\n')
})()`

// originPaths are requested by the page of another origin.
const originPaths = `['/v1/event/stream?topic=Job&namespace=*&index=1', '/v1/client/stats', '/v1/client/metadata', '/v1/client/fs/logs/x?task=t&type=stdout', '/v1/jobs', '/v1/status/leader',
	'/v1/client/gc', '/ui/favicon.svg']`

// A page of another origin reads nothing of an agent without access control. The page of a configured origin reads
// everything, with and without the headers of a UI.
func TestOtherOrigins(t *testing.T) {
	open(t)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>page</title>a page")
	}))
	defer site.Close()
	closed, opened := another(t, "closed", ""), another(t, "opened", fmt.Sprintf("http_api_allowed_origins = [%q]\n", site.URL))

	p := closed.browser.tab(t, site.URL, "") // each refusal is an error on the console
	p.goTo("/", "a page")
	if got := evaluate[string](p, fmt.Sprintf(hostilePage, closed.agent.Address(), originPaths)); got != "" {
		t.Errorf("a page of another origin has read:\n%s", got)
	}
	got := evaluate[string](p, fmt.Sprintf(hostilePage, opened.agent.Address(), `['/v1/jobs', '/v1/client/stats']`))
	for _, want := range []string{"fetch /v1/jobs 200", "token /v1/jobs 200", "credentials /v1/client/stats 200", "websocket"} {
		if !strings.Contains(got, want) {
			t.Errorf("a page of a configured origin has read:\n%s\nwant %s", got, want)
		}
	}
	// A page of the configured origin changes something, and reads the header of a blocking query.
	index := evaluate[string](p,
		fmt.Sprintf(`fetch(%q + '/v1/system/gc', {method: 'PUT', headers: {'X-Nomad-Token': '11111111-2222-3333-4444-555555555555'}})
		.then((r) => r.ok && fetch(%[1]q + '/v1/nodes')).then((r) => r.headers.get('X-Nomad-Index'))`, opened.agent.Address()))
	if index == "" {
		t.Error("a page of a configured origin reads no X-Nomad-Index")
	}
	// A link of the page leads to the UI.
	p.host = strings.TrimPrefix(closed.agent.Address(), "http://")
	evaluate[bool](p, fmt.Sprintf(`(location.href = %q) && true`, closed.agent.Address()+"/ui/jobs"))
	p.waitText("Jobs")
}
