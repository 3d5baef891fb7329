/* Resolves each name once and prints its first IPv4 address, or the error. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *all;
		int err = getaddrinfo(argv[i], NULL, &hints, &all);
		if (err) {
			puts(gai_strerror(err));
			continue;
		}
		char text[INET_ADDRSTRLEN];
		struct sockaddr_in *first = (struct sockaddr_in *)all->ai_addr;
		puts(inet_ntop(AF_INET, &first->sin_addr, text, sizeof text));
		freeaddrinfo(all);
	}
}
