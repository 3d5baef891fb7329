server {
  client_introduction {
    enforcement = "strict" # a node joins with a token: nomad node intro create
  }
  oidc_issuer = "http://127.0.0.1:4646" # where outside services reach the agents
}
