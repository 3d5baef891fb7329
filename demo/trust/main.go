// Command trust is a service that authenticates tasks by their tokens. All that it needs from
// the cluster is the address of the issuer.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
)

func main() {
	issuer := flag.String("issuer", "http://127.0.0.1:4646", "oidc_issuer of the servers")
	audience := flag.String("audience", "greeter.example", "name of this service: the aud of accepted tokens")
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	provider, err := oidc.NewProvider(context.Background(), *issuer) // fetches keys when it sees a new key ID
	if err != nil {
		log.Fatal(err)
	}
	tokens := provider.Verifier(&oidc.Config{ClientID: *audience})
	http.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {}) // for checks, without a token
	http.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		raw, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
		token, err := tokens.Verify(req.Context(), raw) // signature, iss, aud, exp
		if err != nil {
			http.Error(w, "a valid token is required", http.StatusUnauthorized)
			return
		}
		var who struct {
			Job  string `json:"nomad_job_id"`
			Task string `json:"nomad_task"`
		}
		if err := token.Claims(&who); err != nil || who.Job == "" {
			http.Error(w, "the token is not that of a task", http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, "hello task %s of job %s\n", who.Task, who.Job)
	})
	log.Fatal(http.ListenAndServe(*listen, nil))
}
