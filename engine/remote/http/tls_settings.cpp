// SPDX-License-Identifier: Apache-2.0

#include "remote/http/tls_settings.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "base/printable.hpp"

namespace ringload::inline v0::remote_http {

namespace ssl = boost::asio::ssl;

namespace {

// Certificate files of Linux distributions, tried in this order after OpenSSL's default file.
constexpr const char* certificate_files[] = {"/etc/ssl/certs/ca-certificates.crt",
                                             "/etc/pki/tls/certs/ca-bundle.crt",
                                             "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

}  // namespace

ssl::context& tls_settings::loaded() const {
  std::call_once(read_, [this] {
    // SSL_CTX_set_default_verify_paths() is not used, because this function reads the environment.
    ::SSL_CTX* const handle = context_.native_handle();
    SSL_CTX_load_verify_file(handle, ::X509_get_default_cert_file());
    SSL_CTX_load_verify_dir(handle, ::X509_get_default_cert_dir());
    for (const char* file : certificate_files) {
      if (SSL_CTX_load_verify_file(handle, file) == 1) break;
    }
    ::ERR_clear_error();
  });
  return context_;
}

result<std::shared_ptr<const tls_settings>> make_tls_settings(const std::string& ca_file) {
  auto settings = std::make_shared<tls_settings>();
  boost::system::error_code code;
  if (SSL_CTX_set_min_proto_version(settings->configured().native_handle(), TLS1_2_VERSION) != 1) {
    return fault{errc::invalid_options, "TLS", "this OpenSSL has no TLS 1.2"};
  }
  if (!ca_file.empty()) settings->configured().load_verify_file(ca_file, code);
  if (code) {
    return fault{
        errc::invalid_options, "remote_options::ca_file",
        "cannot read certificates in PEM from '" + printable(ca_file) + "': " + code.message()};
  }
  return std::shared_ptr<const tls_settings>(std::move(settings));
}

}  // namespace ringload::inline v0::remote_http
