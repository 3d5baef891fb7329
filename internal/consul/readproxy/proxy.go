// Package readproxy sends the reads of a sandboxed program to Consul, with the token of a task. It is a handler for
// internal/readproxy, which has the connection to the program.
//
//	request of the program ──routes, parameters──▶ Proxy ──▶ adds the token ──▶ agent of Consul
//	                          └─ anything else: status 403, nothing is sent
//
// The program is the renderer of a task's templates. The proxy can add the token of the agent
// (client.template.use_client_consul_token), with which a task must not read.
//
// Only reads of consul-template pass, as a table of paths and query parameters. Headers of the program are dropped, also
// X-Consul-Token and Authorization. Paths with the segments "." and ".." are refused, because a server may clean them.
// The text of an error of Consul is replaced, because Consul may repeat a token in it.
//
// Answers are streamed, at most MaxAnswer bytes each: the proxy holds a buffer per request, and the program that does not
// read slows down Consul's side only. Each request ends with its time limit or with the connection.
//
// The package starts no goroutine.
package readproxy

import (
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/render"
)

// MaxAnswer limits an answer, in bytes. A longer one is cut, and the stream ends with an error.
const MaxAnswer = render.MaxConsulAnswer

// Token is the token that the requests get. It is asked for each request, so a renewed one is used at once.
type Token struct {
	Secret   func() string       // "" for none
	Rejected func(secret string) // is called when Consul does not know the token; nil if no login makes another one
}

// Proxy sends the reads of one program to Consul.
type Proxy struct {
	Agent *consul.Agent
	Token Token
}
