// SPDX-License-Identifier: Apache-2.0

// A service manager for one service, with the interface of systemd.
//
//   service_tool run SOCKET|- NOTIFY PROGRAM ARGUMENT...
//       Listens at SOCKET, passes that socket to PROGRAM, and prints "pid N", then each line that
//       PROGRAM sends to NOTIFY. SOCKET "-": passes a socket of another kind. Returns the exit
//       code.
//   service_tool get http://HOST:PORT/PATH
//       Prints the answer of a server, with its head.
//   service_tool get-absolute http://HOST:PORT/PATH
//       Does the same. The request contains the whole address instead of the path.
//   service_tool hang
//       Prints the port of a server that answers no request, then a line for each connection. Ends
//       when it is killed.

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

int bound_socket(int type, const char* path) {
  ::sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  const int socket = ::socket(AF_UNIX, type, 0);
  if (socket < 0 ||
      ::bind(socket, reinterpret_cast<const ::sockaddr*>(&address), sizeof address) != 0) {
    std::perror(path);
    std::exit(99);
  }
  return socket;
}

[[noreturn]] void start(int passed, const char* notify, char** program) {
  if (passed != 3) ::dup2(passed, 3);
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  ::setenv("LISTEN_FDS", "1", 1);
  ::setenv("NOTIFY_SOCKET", notify, 1);
  ::execv(program[0], program);
  std::perror(program[0]);
  std::_Exit(98);
}

int run(const char* path, const char* notify, char** program) {
  const bool is_plain = std::strcmp(path, "-") == 0;
  const int passed = is_plain ? ::dup(0) : bound_socket(SOCK_SEQPACKET, path);
  if (!is_plain) ::listen(passed, 8);
  const int told = bound_socket(SOCK_DGRAM | SOCK_CLOEXEC, notify);
  const ::timeval wait = {0, 50'000};
  ::setsockopt(told, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  const ::pid_t child = ::fork();
  if (child == 0) start(passed, notify, program);
  std::printf("pid %d\n", child);
  int status = 0;
  for (bool ended = false;;) {
    char lines[4096];
    const ssize_t bytes = ::recv(told, lines, sizeof lines, 0);
    if (bytes > 0) std::printf("%.*s\n", static_cast<int>(bytes), lines);
    std::fflush(stdout);
    if (bytes <= 0 && ended) break;
    if (!ended) ended = ::waitpid(child, &status, WNOHANG) == child;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 97;
}

int get(std::string_view url, bool is_absolute) {
  using boost::asio::ip::tcp;
  const std::string address(url);
  url.remove_prefix(std::strlen("http://"));
  const std::string_view host = url.substr(0, url.find('/'));
  const std::string target = is_absolute ? address : std::string(url.substr(host.size()));
  const std::size_t colon = host.rfind(':');
  boost::asio::io_context context;
  tcp::socket socket(context);
  socket.connect({boost::asio::ip::make_address(std::string(host.substr(0, colon))),
                  static_cast<unsigned short>(std::stoi(std::string(host.substr(colon + 1))))});
  boost::asio::write(socket, boost::asio::buffer("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n"));
  std::string answer;
  boost::system::error_code end;
  boost::asio::read(socket, boost::asio::dynamic_buffer(answer), end);
  std::fwrite(answer.data(), 1, answer.size(), stdout);
  return 0;
}

int hang() {
  using boost::asio::ip::tcp;
  boost::asio::io_context context;
  tcp::acceptor acceptor(context, {boost::asio::ip::make_address("127.0.0.1"), 0});
  std::printf("%u\n", static_cast<unsigned>(acceptor.local_endpoint().port()));
  std::fflush(stdout);
  for (std::vector<tcp::socket> clients;;) {
    clients.push_back(acceptor.accept());
    std::puts("connection");
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "get") == 0) return get(argv[2], false);
  if (argc == 3 && std::strcmp(argv[1], "get-absolute") == 0) return get(argv[2], true);
  if (argc == 2 && std::strcmp(argv[1], "hang") == 0) return hang();
  if (argc >= 5 && std::strcmp(argv[1], "run") == 0) return run(argv[2], argv[3], argv + 4);
  std::fputs("usage: see the head of service_tool.cpp\n", stderr);
  return 2;
}
