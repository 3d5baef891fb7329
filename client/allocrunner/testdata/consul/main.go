// Command consul stands for the program of Consul that makes the configuration of a proxy: "consul connect envoy". Like
// it, it asks the agent of Consul for the service of the proxy, with the token of its environment.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "stand-in:", err)
		os.Exit(1)
	}
}

func run() error {
	flags := flag.NewFlagSet("consul connect envoy", flag.ContinueOnError)
	grpc, addr, id := flags.String("grpc-addr", "", ""), flags.String("http-addr", "", ""), flags.String("proxy-id", "", "")
	admin, ready := flags.String("admin-bind", "", ""), flags.String("address", "", "")
	gateway := flags.String("gateway", "", "")
	flags.Bool("bootstrap", false, "")
	if err := flags.Parse(os.Args[3:]); err != nil {
		return err
	}
	token := os.Getenv("CONSUL_HTTP_TOKEN")
	req, err := http.NewRequest(http.MethodGet, "http://consul/v1/agent/services", nil)
	if err != nil {
		return err
	}
	if token != "" {
		req.Header.Set("X-Consul-Token", token)
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(*addr, "unix://"))
	}}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	var services map[string]struct{ Kind string }
	if err := json.NewDecoder(resp.Body).Decode(&services); err != nil {
		return err
	}
	s, ok := services[*id]
	if !ok {
		return fmt.Errorf("no service %s, token %s", *id, token)
	}
	_, secret := os.ReadFile("/etc/shadow")
	fmt.Fprintln(os.Stderr, "made with the token", token)
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"id": *id, "kind": s.Kind, "grpc": *grpc, "admin": *admin, "ready": *ready,
		"gateway": *gateway, "token": token, "uid": os.Getuid(), "reads shadow": secret == nil})
}
