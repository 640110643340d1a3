// Reading and running the instructions of custom aggregates.
#include "../abi/compiler.h"

#include "program.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace host {

Program* program;

namespace {

typedef void (*Does)(u64& d, u64 a, u64 b, u64 c);

// An operation: its name, and the types of its operands, of which the first is its result. F is a
// float64, P a truth value, L and R are integers of 64 and 32 bits, B is F or L; A is the address
// that an operation stores to.
struct Op {
  const char *name, *types;
  Does does;
};

double f(u64 v) { return as_double(v); }

const Op kOps[] = {
    {"mov.f64", "FF", [](u64& d, u64 a, u64, u64) { d = a; }},
    {"mov.pred", "PP", [](u64& d, u64 a, u64, u64) { d = a != 0; }},
    {"add.rn.f64", "FFF", [](u64& d, u64 a, u64 b, u64) { d = as_bits(f(a) + f(b)); }},
    {"sub.rn.f64", "FFF", [](u64& d, u64 a, u64 b, u64) { d = as_bits(f(a) - f(b)); }},
    {"mul.rn.f64", "FFF", [](u64& d, u64 a, u64 b, u64) { d = as_bits(f(a) * f(b)); }},
    {"div.rn.f64", "FFF", [](u64& d, u64 a, u64 b, u64) { d = as_bits(f(a) / f(b)); }},
    {"neg.f64", "FF", [](u64& d, u64 a, u64, u64) { d = as_bits(-f(a)); }},
    {"abs.f64", "FF", [](u64& d, u64 a, u64, u64) { d = as_bits(std::fabs(f(a))); }},
    {"sqrt.rn.f64", "FF", [](u64& d, u64 a, u64, u64) { d = as_bits(std::sqrt(f(a))); }},
    {"cvt.rmi.f64.f64", "FF", [](u64& d, u64 a, u64, u64) { d = as_bits(std::floor(f(a))); }},
    {"cvt.rpi.f64.f64", "FF", [](u64& d, u64 a, u64, u64) { d = as_bits(std::ceil(f(a))); }},
    {"cvt.rn.f64.s64", "FL", [](u64& d, u64 a, u64, u64) { d = as_bits((double)(i64)a); }},
    {"mov.b64", "BB", [](u64& d, u64 a, u64, u64) { d = a; }},
    {"and.b64", "LLL", [](u64& d, u64 a, u64 b, u64) { d = a & b; }},
    {"or.b64", "LLL", [](u64& d, u64 a, u64 b, u64) { d = a | b; }},
    {"setp.lt.f64", "PFF", [](u64& d, u64 a, u64 b, u64) { d = f(a) < f(b); }},
    {"setp.le.f64", "PFF", [](u64& d, u64 a, u64 b, u64) { d = f(a) <= f(b); }},
    {"setp.eq.f64", "PFF", [](u64& d, u64 a, u64 b, u64) { d = f(a) == f(b); }},
    {"setp.neu.f64", "PFF", [](u64& d, u64 a, u64 b, u64) { d = f(a) != f(b); }},
    {"setp.ltu.f64", "PFF", [](u64& d, u64 a, u64 b, u64) { d = !(f(a) >= f(b)); }},
    {"setp.eq.u32", "PRR", [](u64& d, u64 a, u64 b, u64) { d = (u32)a == (u32)b; }},
    {"and.pred", "PPP", [](u64& d, u64 a, u64 b, u64) { d = a & b; }},
    {"or.pred", "PPP", [](u64& d, u64 a, u64 b, u64) { d = a | b; }},
    {"xor.pred", "PPP", [](u64& d, u64 a, u64 b, u64) { d = a ^ b; }},
    {"not.pred", "PP", [](u64& d, u64 a, u64, u64) { d = !a; }},
    {"selp.f64", "FFFP", [](u64& d, u64 a, u64 b, u64 c) { d = c ? a : b; }},
    {"add.s64", "LLL", [](u64& d, u64 a, u64 b, u64) { d = a + b; }},
    {"ld.f64", "FL", [](u64& d, u64 a, u64, u64) { d = *(u64*)a; }},
    {"st.f64", "AF", [](u64& d, u64 a, u64, u64) { *(u64*)d = a; }},
};

// Reads the text of a module.
struct Reader {
  Program& to;
  std::string& fault;
  struct Register {
    u32 at;
    char type;
    bool written;
  };
  typedef std::map<std::string, Register> Names;
  Names state, own;  // of the kernel, and of the block that is read

  bool wrong(const std::string& line, const char* what) {
    fault = line + ": " + what;
    return false;
  }

  u32 make(u64 v) {
    to.registers.push_back(v);
    return (u32)to.registers.size() - 1;
  }

  // Reads ".reg .f64 %x<4>;", or without the number.
  bool declare(const std::string& line, Names& names, bool written) {
    char kind[8], name[32];
    unsigned n = 1;
    int got = sscanf(line.c_str(), ".reg .%7s %%%31[a-z0-9_]<%u>;", kind, name, &n);
    const char* types[][2] = {{"f64", "F"}, {"pred", "P"}, {"b64", "L"}, {"b32", "R"}};
    char type = 0;
    for (auto& t : types) {
      if (!strcmp(kind, t[0])) type = *t[1];
    }
    if (got < 2 || !type) return wrong(line, "no declaration of registers");
    for (unsigned i = 0; i < n; i++) {
      std::string full = std::string("%") + name + (got == 3 ? std::to_string(i) : "");
      if (names.count(full)) return wrong(line, "a register is declared twice");
      names[full] = {make(0), type, written};
    }
    return true;
  }

  // The operands of a line, behind its first word.
  static std::vector<std::string> operands(const std::string& text) {
    std::vector<std::string> all(1);
    for (char c : text) {
      if (c == ',') {
        all.emplace_back();
      } else if (!strchr(" []\t;", c)) {
        all.back() += c;
      }
    }
    if (all.back().empty()) all.pop_back();
    return all;
  }

  // Finds the register of an operand of a type, or makes one for a constant.
  bool operand(const std::string& line, const std::string& text, char type, bool writes, u32& at) {
    if (text[0] != '%') {
      if (writes) return wrong(line, "a constant is written");
      bool is_float = text.compare(0, 2, "0d") == 0;
      if (is_float != (type == 'F') || (is_float && text.size() != 18)) return wrong(line, "a constant of another type");
      at = make(strtoull(text.c_str() + (is_float ? 2 : 0), nullptr, is_float ? 16 : 10));
      return true;
    }
    auto found = own.find(text);
    if (found == own.end() && (found = state.find(text)) == state.end()) return wrong(line, "a register is not declared");
    Register& r = found->second;
    bool fits = type == r.type || (type == 'B' && (r.type == 'F' || r.type == 'L')) || (type == 'A' && r.type == 'L');
    if (!fits) return wrong(line, "a register has another type");
    if (type == 'A') writes = false;
    if (!writes && !r.written) return wrong(line, "a register is read before it is written");
    if (writes) r.written = true;
    at = r.at;
    return true;
  }

  bool instruction(const std::string& line, Place& b) {
    size_t space = line.find(' ');
    std::string name = line.substr(0, space);
    std::vector<std::string> of = operands(space == std::string::npos ? "" : line.substr(space));
    if (line.back() != ';') return wrong(line, "no semicolon");
    for (const Op& op : kOps) {
      if (name != op.name) continue;
      size_t n = strlen(op.types);
      if (of.size() != n) return wrong(line, "another number of operands");
      Instruction in{(u32)(&op - kOps), {0, 0, 0, 0}};
      for (size_t i = n; i-- > 0;) {  // what is read before what is written
        if (!operand(line, of[i], op.types[i], i == 0, in.at[i])) return false;
      }
      b.body.push_back(in);
      return true;
    }
    return wrong(line, "an unknown operation");
  }

  // Begins the block of "{ // custom.fetch 0, %rd5, %rd7".
  bool begin(const std::string& line, std::string& place, Place& b) {
    own.clear();
    std::string text = line.substr(strlen("{ // custom."));
    size_t space = text.find(' ');
    place = text.substr(0, space);
    if (space == std::string::npos) return true;
    for (const std::string& of : operands(text.substr(space))) {
      if (of[0] != '%') {
        place += " " + of;
        continue;
      }
      char type = of[1] == 'f' ? 'F' : of[2] == 'd' ? 'L' : 'R';
      own[of] = {make(0), type, !(place == "result" && b.given.empty())};
      b.given.push_back(own[of].at);
    }
    return true;
  }

  bool all(const std::string& ptx) {
    std::istringstream lines(ptx);
    std::string line, place;
    Place b;
    bool inside = false;
    while (std::getline(lines, line)) {
      line.erase(0, line.find_first_not_of(" \t"));
      bool fine = true;
      if (!inside && line.compare(0, 7, "custom.") == 0) {
        return wrong(line, "no program was put here");
      } else if (!inside && line.compare(0, 11, "{ // custom") == 0) {
        b = Place();
        inside = begin(line, place, b);
      } else if (!inside) {
        if (line.compare(0, 12, ".reg .f64 %c") == 0) fine = declare(line, state, true);
      } else if (line == "}") {
        inside = false;
        to.blocks.emplace(place, b);
      } else {
        bool declares = line.compare(0, 5, ".reg ") == 0;
        if (declares && !b.body.empty()) return wrong(line, "a declaration behind an instruction");
        fine = declares ? declare(line, own, false) : instruction(line, b);
      }
      if (!fine) return false;
    }
    return !inside || wrong(place, "its end is missing");
  }
};

}  // namespace

std::unique_ptr<Program> Program::read(const std::string& ptx, std::string& fault) {
  if (ptx.find("custom.") == std::string::npos) return nullptr;
  std::unique_ptr<Program> p(new Program);
  Reader{*p, fault, {}, {}}.all(ptx);
  return p;
}

void Program::run(const char* place, std::vector<u64>& values) {
  auto found = blocks.find(place);
  if (found == blocks.end() || found->second.given.size() != values.size()) {
    fprintf(stderr, "host driver: the program has nothing for custom.%s\n", place);
    abort();
  }
  const Place& b = found->second;
  u64* r = registers.data();
  for (size_t i = 0; i < values.size(); i++) r[b.given[i]] = values[i];
  for (const Instruction& in : b.body) kOps[in.op].does(r[in.at[0]], r[in.at[1]], r[in.at[2]], r[in.at[3]]);
  if (!values.empty()) values[0] = r[b.given[0]];
}

u64 custom(const char* place, std::vector<u64> values) {
  program->run(place, values);
  return values.empty() ? 0 : values[0];
}

u64 custom(const char* place, u32 number, std::vector<u64> values) {
  return custom((std::string(place) + " " + std::to_string(number)).c_str(), values);
}

}  // namespace host
