// Package httpapi is the HTTP API of an agent: one table of all routes, and their handlers. A
// handler translates the request into one RPC. Most rows of the table consist of the method's name,
// a function that fills its request, and one that selects the body of the reply. The reply is JSON
// with the field names of package nomad.
//
// Package web matches the routes, checks rights and limits, and writes the replies. A handler
// never writes state itself: the servers, a node or the Agent do. The RPC behind a route
// authorizes the request with the token that the request carries. Routes without an RPC check the
// token themselves (web.ForCallers, web.ForOperators, Request.Ask): those of the agent and those
// of missing features.
//
// A Server keeps only the table and the numbers of exec sessions and of forwarded connections. These
// have goroutines that end with their websocket. No other goroutine outlives its request.
package httpapi
